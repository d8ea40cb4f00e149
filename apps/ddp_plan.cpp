// ddp_plan: predicts the step of a training on other numbers of ranks, from a run's profile.
#include <optional>
#include <set>

#include "apps/flags/command_line.h"
#include "apps/flags/declare_flags.h"
#include "apps/flags/flag_groups.h"
#include "apps/flags/flag_values.h"
#include "apps/flags/options.h"
#include "apps/flags/rules.h"
#include "apps/plan/all_reduce_cost.h"
#include "apps/plan/plan.h"
#include "apps/plan/plan_report.h"
#include "apps/training/program.h"
#include "core/io/atomic_file.h"

namespace brigade::apps {

namespace {

constexpr const char* kExamples = R"(Examples:
  mpirun -np 2 train_mlp --mode naive --steps 100 --out runs/p    # writes runs/p/profile.json
  ddp_plan runs/p/profile.json --mode overlap --bucket-mb 5
  ddp_plan runs/p/profile.json --link 5,12.5 --algorithm hierarchical \
           --ranks-per-host 8 --local-link 2,200)";

/// The flags that are not part of the question.
struct Request {
  std::string profile;
  std::string html;
  bool json = false;
};

class PlanFlags : FlagGroups {
 public:
  PlanFlags(CLI::App& app, PlanQuestion& question, Request& request)
      : FlagGroups(app), q_(question), o_(question.training) {
    app.add_option("profile", request.profile, "profile.json of a run")->type_name("");
    group("Training");
    training();
    group("Cluster");
    cluster();
    group("Output");
    text("--html", "FILE", request.html, "the table and a curve as a page");
    toggle("--json", request.json, "print JSON only");
  }

 private:
  void training() {
    choice("--mode", o_.mode, {kModes.begin(), kModes.end()});
    const auto capacity = [&o = o_](const std::string& flag, const std::string& text) {
      constexpr double kMostMb = 1e6;
      o.choose_buckets = text == "auto";
      return o.choose_buckets ? 0.0 : parse_number(flag, text, 0.0, kMostMb);
    };
    value("--bucket-mb", "X", o_.bucket_mb, capacity,
          "bucket capacity in MiB (25; --cross-step: 1), or auto");
    number("--accum", o_.accum, std::int64_t{1}, std::int64_t{1'000}, "micro-batches per step (1)");
    toggle("--cross-step", o_.cross_step, "communicate under the next forward, too");
    toggle("--shard-optimizer", o_.shard_optimizer, "each rank updates 1/N of the weights");
    text("--comm-hook", "HOOK", o_.comm_hook, "compression, as of train_mlp (none)");
    count("--global-batch", o_.global_batch, 1,
          "samples per step over all ranks (each rank keeps its batch)");
    const auto spread = [](const std::string& flag, const std::string& text) {
      return parse_number(flag, text, 0.0, 10.0);
    };
    value("--spread", "X", q_.spread, spread,
          "standard deviation of ln(compute time) (as measured)");
  }

  void cluster() {
    const auto ranks = [](const std::string& flag, const std::string& text) {
      constexpr std::int64_t kMost = 1 << 24;
      std::set<int> numbers;
      for (const std::string& one : split_at_commas(text)) {
        numbers.insert(static_cast<int>(parse_number<std::int64_t>(flag, one, 1, kMost)));
      }
      return std::vector<int>(numbers.begin(), numbers.end());
    };
    value("--ranks", "A,B,..", q_.ranks, ranks, "numbers of ranks (8, 16, 32, ... 65536)");
    choice("--algorithm", q_.algorithm, costed_algorithms(), "all-reduce: ");
    const auto network = [&q = q_](const std::string& flag, const std::string& text) {
      const bool measured = check_not_empty(flag, text).ends_with(".json");
      q.network = measured ? std::optional(read_profile(text)) : std::nullopt;
      return measured ? std::nullopt : std::optional(parse_link(flag, text));
    };
    value("--link", "US,GB/S", q_.link, network,
          "the network, or the profile of a run on it (as this run measured)");
    count("--ranks-per-host", q_.ranks_per_host, 1, "ranks that share a host's link (1)");
    value("--local-link", "US,GB/S", q_.local_link, parse_link, "inside a host (as --link)");
  }

  PlanQuestion& q_;
  Options& o_;
};

void complete(const CLI::App& app, PlanQuestion& question) {
  if (app.count("profile") == 0) {
    throw UsageError("expected the profile.json of a run, as in ddp_plan runs/3/profile.json");
  }
  Options& training = question.training;
  if (training.cross_step && app.count("--bucket-mb") == 0) {
    training.bucket_mb = 1.0;  // as in training
  }
  check_combinations(training);  // what no training can do has no prediction
}

int run(int argc, const char* const* argv) {
  CLI::App app("Predicts a data-parallel training on other numbers of ranks from a run's profile.",
               "ddp_plan");
  prepare_command_line(app);
  app.footer(kExamples);
  PlanQuestion question;
  Request request;
  const PlanFlags flags(app, question, request);
  std::string answer;
  if (const auto exit = parse_command_line(app, argc, argv, [&] {
        complete(app, question);
        const Profile profile = read_profile(request.profile);
        const std::vector<PlanRow> rows = plan(profile, question);
        answer =
            request.json ? plan_json(profile, question, rows) : plan_text(profile, question, rows);
        if (!request.html.empty()) {
          write_file_atomically(request.html, plan_html(profile, question, rows));
        }
      })) {
    return leave_early(*exit);
  }
  return leave_early({answer, 0});
}

}  // namespace

}  // namespace brigade::apps

// NOLINTNEXTLINE(bugprone-exception-escape): the flags' names are valid
int main(int argc, char** argv) {
  return brigade::apps::run(argc, argv);
}
