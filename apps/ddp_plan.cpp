// ddp_plan: predicts the step of a training on other numbers of ranks, from a run's profile.
#include <algorithm>

#include "apps/flags/command_line.h"
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

/// The texts of flags whose values are more than a number.
struct Texts {
  std::string profile;
  std::string ranks = "8,16,32,64,128,256,512,1024,2048,4096,8192,16384,32768,65536";
  std::string bucket_mb = "25";
  std::string link;
  std::string local_link;
  std::string html;
  std::string spread;
  bool json = false;
};

void declare(CLI::App& app, Texts& texts, PlanQuestion& question) {
  constexpr std::int64_t kMost = 1'000'000'000;
  constexpr std::int64_t kMostAccum = 1'000;
  const CLI::Range positive(std::int64_t{1}, kMost);
  app.add_option("profile", texts.profile, "profile.json of a run")->required();
  app.add_option("--ranks", texts.ranks, "how many; comma-separated");
  app.add_option("--mode", question.mode, "how gradients are averaged")
      ->check(CLI::IsMember({"naive", "flat", "per_param", "overlap", "no_sync"}));
  app.add_option("--bucket-mb", texts.bucket_mb, "capacity of a bucket in MiB, or auto");
  app.add_option("--accum", question.accum, "micro-batches of a step")
      ->check(CLI::Range(std::int64_t{1}, kMostAccum));
  app.add_flag("--cross-step", question.cross_step, "buckets travel on under the next forward");
  app.add_flag("--shard-optimizer", question.shard_optimizer,
               "each rank updates 1/N of the weights");
  app.add_option("--comm-hook", question.comm_hook, "compression, as of train_mlp");
  app.add_option("--algorithm", question.algorithm, "of the all-reduce")
      ->check(CLI::IsMember(costed_algorithms()));
  app.add_option(
      "--link", texts.link,
      "US,GB/S of the network, or the profile (.json) of a run on it; else as this run measured");
  app.add_option("--ranks-per-host", question.ranks_per_host, "they share their host's link")
      ->check(positive);
  app.add_option("--local-link", texts.local_link, "US,GB/S: inside a host; without it as --link");
  app.add_option("--global-batch", question.global_batch,
                 "samples of a step, however many ranks (strong scaling)")
      ->default_str("")
      ->check(positive);
  app.add_option(
         "--spread", texts.spread,
         "how much computation varies: standard deviation of ln(time); without it as measured")
      ->default_str("");
  app.add_option("--html", texts.html, "FILE: the table and a curve as a page");
  app.add_flag("--json", texts.json, "print JSON only");
}

void complete(const CLI::App& app, const Texts& texts, PlanQuestion& question) {
  constexpr int kMostRanks = 1 << 24;
  constexpr double kMostMb = 1e6;
  for (const std::string& ranks : split_at_commas(texts.ranks)) {
    question.ranks.push_back(
        static_cast<int>(parse_number<std::int64_t>("--ranks", ranks, 1, kMostRanks)));
  }
  for (const char* name : {"--link", "--local-link", "--spread", "--html"}) {
    if (const CLI::Option* option = app.get_option(name); option->count() > 0) {
      check_not_empty(name, option->as<std::string>());
    }
  }
  question.choose_buckets = texts.bucket_mb == "auto";
  if (question.cross_step && app.count("--bucket-mb") == 0) {
    question.bucket_mb = 1.0;  // as in training
  } else if (!question.choose_buckets) {
    question.bucket_mb = parse_number("--bucket-mb", texts.bucket_mb, 0.0, kMostMb);
  }
  if (texts.link.ends_with(".json")) {
    question.network = read_profile(texts.link);
  } else if (!texts.link.empty()) {
    question.link = parse_link("--link", texts.link);
  }
  if (!texts.local_link.empty()) {
    question.local_link = parse_link("--local-link", texts.local_link);
  }
  if (!texts.spread.empty()) {
    question.spread = parse_number("--spread", texts.spread, 0.0, 10.0);
  }
  std::ranges::sort(question.ranks);
  question.ranks.erase(std::unique(question.ranks.begin(), question.ranks.end()),
                       question.ranks.end());
  Options training;  // what no training can do has no prediction
  training.mode = question.mode;
  training.accum = question.accum;
  training.cross_step = question.cross_step;
  training.shard_optimizer = question.shard_optimizer;
  training.choose_buckets = question.choose_buckets;
  training.comm_hook = question.comm_hook;
  check_combinations(training);
}

int run(int argc, const char* const* argv) {
  CLI::App app("Predicts a data-parallel training on other numbers of ranks from a run's profile.",
               "ddp_plan");
  prepare_command_line(app);
  app.option_defaults()->always_capture_default();
  app.footer(kExamples);
  Texts texts;
  PlanQuestion question;
  declare(app, texts, question);
  std::string answer;
  if (const auto exit = parse_command_line(app, argc, argv, [&] {
        complete(app, texts, question);
        const Profile profile = read_profile(texts.profile);
        const std::vector<PlanRow> rows = plan(profile, question);
        answer =
            texts.json ? plan_json(profile, question, rows) : plan_text(profile, question, rows);
        if (!texts.html.empty()) {
          write_file_atomically(texts.html, plan_html(profile, question, rows));
        }
      })) {
    return leave_early(exit->text, exit->exit_code);
  }
  return leave_early(answer, 0);
}

}  // namespace

}  // namespace brigade::apps

// NOLINTNEXTLINE(bugprone-exception-escape): the flags' names are valid
int main(int argc, char** argv) {
  return brigade::apps::run(argc, argv);
}
