#include "apps/training/link_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>

#include "apps/metrics/figure.h"
#include "apps/training/model.h"
#include "autograd/variable.h"
#include "core/runtime/context.h"
#include "dist/comm/emulated_link_communicator.h"
#include "dist/comm/gather.h"
#include "dist/ddp/bucket_plan.h"

namespace brigade::apps {

namespace {

/// Shortest time of a backward of one micro-batch, in ms, without communication: other programs
/// only ever make one longer. All ranks measure at the same time, as they compute at the same time.
double backward_ms(nn::Module& model, const Options& options, const data::Dataset& dataset,
                   Device device, dist::Communicator& comm) {
  constexpr int kWarmUp = 2;
  constexpr int kTimes = 10;
  double shortest = std::numeric_limits<double>::max();
  std::vector<std::int64_t> samples(
      static_cast<std::size_t>(std::min(options.batch, dataset.size())));
  std::iota(samples.begin(), samples.end(), 0);
  const data::Batch batch = data::load_batch(dataset, samples, device);
  const auto loss = make_loss(options.loss);
  Stream& stream = compute_stream(device);
  for (int i = -kWarmUp; i < kTimes; ++i) {
    const autograd::Variable root =
        (*loss)(model.forward(autograd::Variable(batch.inputs)), batch.targets);
    stream.synchronize();
    comm.barrier();
    const auto begin = std::chrono::steady_clock::now();
    root.backward();
    stream.synchronize();
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - begin;
    shortest = i < 0 ? shortest : std::min(shortest, spent.count());
    for (const autograd::Variable& parameter : model.parameters()) {
      parameter.zero_grad();
    }
  }
  return shortest;
}

}  // namespace

dist::LinkModel link_as_slow_as(double ms, std::size_t bytes, std::size_t collectives, int ranks) {
  constexpr double kUsualLatencyUs = 10.0;
  constexpr double kMostOfIt = 0.1;
  const double hops = 2.0 * (ranks - 1) * static_cast<double>(collectives);
  dist::LinkModel link;
  link.alpha_us = std::min(kUsualLatencyUs, kMostOfIt * 1e3 * ms / hops);
  const double sent = 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes);
  link.gigabytes_per_s = sent / (1e6 * (ms - 1e-3 * hops * link.alpha_us));
  return link;
}

dist::LinkModel choose_link(const Options& options, const data::Dataset& dataset, Device device,
                            dist::Communicator& comm, const Console& console) {
  const auto model = make_network(shape_of(options, dataset), options.seed, device);
  const auto parameters = model->parameters();
  const auto bytes = static_cast<std::size_t>(count_elements(parameters)) * sizeof(float);
  const double mine = backward_ms(*model, options, dataset, device, comm);
  const double ms = dist::broadcast_from_rank0(comm, std::vector{mine})[0];
  const std::size_t collectives =
      dist::plan_buckets(parameters, options.data_parallel().capacity()).size();
  const dist::LinkModel link = link_as_slow_as(ms, bytes, collectives, comm.size());
  console.line(fmt::format(
      "emulating a link of {:.3g} us and {:.3g} GB/s, on which the gradients, {:.2f} MiB in {} "
      "all-reduces, take as long as backward does here: {:.2f} ms",
      link.alpha_us, link.gigabytes_per_s, kMiB * static_cast<double>(bytes), collectives, ms));
  return link;
}

void emulate_link(Options& options, const data::Dataset& dataset, Runtime& runtime,
                  const Console& console) {
  if (!options.emulated_link && !options.choose_link) {
    return;
  }
  if (runtime.comm->size() == 1) {
    console.warn(
        "--emulate-link: without effect: one rank sends nothing; start more "
        "with mpirun -np 2");
    options.emulated_link.reset();
    return;
  }
  if (options.choose_link) {
    options.emulated_link = choose_link(options, dataset, runtime.device, *runtime.comm, console);
  }
  runtime.comm = std::make_unique<dist::EmulatedLinkCommunicator>(std::move(runtime.comm),
                                                                  *options.emulated_link);
}

}  // namespace brigade::apps
