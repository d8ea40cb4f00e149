#include "apps/training/inject.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iterator>
#include <limits>
#include <thread>
#include <utility>

#include "apps/flags/flag_values.h"
#include "autograd/grad_mode.h"
#include "core/error.h"
#include "core/runtime/trace.h"

namespace brigade::apps {

namespace {

using Names = std::vector<std::string>;

/// The layer around a model whose rank has a fault.
class FaultyModel final : public nn::Module {
 public:
  FaultyModel(nn::Module& model, Fault fault, std::int64_t accum,
              std::shared_ptr<bool> wire_flip_due)
      : model_(model),
        fault_(std::move(fault)),
        accum_(accum),
        wire_flip_due_(std::move(wire_flip_due)) {
    register_module("model", model);
  }

  nn::Variable forward(const nn::Variable& x) override {
    return model_.forward(autograd::grad_enabled() ? strike(x) : x);
  }
  std::string description() const override { return model_.description(); }

 private:
  nn::Variable strike(const nn::Variable& x) {
    const std::int64_t step = forwards_++ / accum_ + 1;
    if (fault_.kind == FaultKind::slow) {
      const TraceScope trace("injected_delay");
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(fault_.ms));
    } else if (fault_.kind == FaultKind::nan && step >= fault_.step) {
      return spoil(x);
    } else if (fault_.kind == FaultKind::kill && step == fault_.step) {
      std::raise(SIGKILL);
    } else if (fault_.kind == FaultKind::stop && step == fault_.step) {
      std::raise(SIGSTOP);
    } else if (fault_.kind == FaultKind::spin && step == fault_.step) {
      for (volatile bool forever = true; forever;) {
      }
    } else if (fault_.kind == FaultKind::bit_flip && step >= fault_.step) {
      flip_a_bit();
    } else if (fault_.kind == FaultKind::wire_flip && step >= fault_.step) {
      *wire_flip_due_ = *wire_flip_due_ || !std::exchange(struck_, true);
    }
    return x;
  }

  /// Once: the first batch that has a sample to spoil.
  nn::Variable spoil(const nn::Variable& x) {
    if (x.data().numel() == 0 || std::exchange(struck_, true)) {
      return x;
    }
    const Tensor values = x.data().to(kCpu).clone();
    values.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    return nn::Variable(values.to(x.device()));
  }

  /// Once: the lowest bit of the first weight's exponent, so that it doubles or is half of what it
  /// was.
  void flip_a_bit() {
    if (std::exchange(struck_, true)) {
      return;
    }
    const Tensor weight = model_.parameters().front().data().flat_view(0, {1});
    const Tensor value = weight.to(kCpu).clone();
    value.bytes()[2] ^= std::byte{0x80};
    weight.copy_from(value);
  }

  nn::Module& model_;
  Fault fault_;
  std::int64_t accum_;
  std::shared_ptr<bool> wire_flip_due_;
  std::int64_t forwards_ = 0;
  bool struck_ = false;
};

}  // namespace

FaultInjector::FaultInjector(std::optional<Fault> fault, const dist::Communicator& comm)
    : fault_(std::move(fault)) {
  if (!fault_) {
    return;
  }
  if (comm.size() < 2) {
    throw UsageError(
        fmt::format("--inject {}: expected at least 2 ranks, got 1; start them with mpirun -np 2",
                    fault_->text));
  }
  if (fault_->rank >= comm.size()) {
    throw UsageError(fmt::format("--inject {}: expected a rank from 0 to {}, got {}", fault_->text,
                                 comm.size() - 1, fault_->rank));
  }
  mine_ = fault_->rank == comm.rank();
}

std::uint64_t FaultInjector::weight_seed(std::uint64_t seed) const {
  return strikes(FaultKind::other_seed) ? seed + 1 : seed;
}

std::vector<autograd::Variable> FaultInjector::parameters(
    std::vector<autograd::Variable> parameters) const {
  if (!has(FaultKind::skip_param)) {
    return parameters;
  }
  Names names;
  std::ranges::transform(parameters, std::back_inserter(names), &autograd::Variable::name);
  const std::string& wanted = fault_->name.empty() ? names.front() : fault_->name;
  const auto found = std::ranges::find(names, wanted);
  if (found == names.end()) {
    throw UsageError(fmt::format("--inject {}: the model has no parameter \"{}\"{}", fault_->text,
                                 wanted, suggestion(wanted, names)));
  }
  if (mine_) {
    autograd::Variable& skipped = parameters[static_cast<std::size_t>(found - names.begin())];
    skipped = autograd::Variable(skipped.data().clone(), /*requires_grad=*/true, wanted);
  }
  return parameters;
}

dist::DataParallelOptions FaultInjector::synchronisation(
    dist::DataParallelOptions options, const std::vector<autograd::Variable>& parameters) const {
  if (has(FaultKind::swap_buckets) && parameters.size() < 2) {
    throw UsageError(fmt::format(
        "--inject {}: expected a model of at least 2 parameters, got 1: there is nothing to swap",
        fault_->text));
  }
  if (!strikes(FaultKind::swap_buckets)) {
    return options;
  }
  options.plan = dist::plan_buckets(parameters, options.capacity());
  std::ranges::reverse(options.plan);
  for (std::vector<std::size_t>& members : options.plan) {
    std::ranges::reverse(members);
  }
  return options;
}

void FaultInjector::on_the_wire(dist::Communicator& comm, Device device) const {
  if (has(FaultKind::wire_flip) && device.is_cuda()) {
    throw UsageError(fmt::format("--inject {}: expected ranks on the CPU, got {}; add --device cpu",
                                 fault_->text, device));
  }
  if (!strikes(FaultKind::wire_flip)) {
    return;
  }
  comm.add_wrap(
      [due = wire_flip_due_, before = fault_->in](const Tensor& payload, std::string_view /*label*/,
                                                  dist::Communicator::Collective collective) {
        if (!std::exchange(*due, false)) {
          return collective;
        }
        // The highest bit of an exponent.
        const auto flip = [payload] {
          const std::size_t middle = static_cast<std::size_t>(payload.numel() / 2 + 1);
          payload.bytes()[middle * size_of(payload.dtype()) - 1] ^= std::byte{0x40};
        };
        return dist::Communicator::Collective(
            [flip, before, collective = std::move(collective)](dist::Collectives& ranks) {
              if (before) {
                flip();
              }
              collective(ranks);
              if (!before) {
                flip();
              }
            });
      });
}

nn::Module& FaultInjector::around(nn::Module& model, std::int64_t accum, std::int64_t steps) {
  using enum FaultKind;
  const bool at_a_step =
      has(nan) || has(kill) || has(stop) || has(spin) || has(bit_flip) || has(wire_flip);
  if (at_a_step && fault_->step > steps) {
    throw UsageError(fmt::format("--inject {}: expected a step from 1 to {}, got {}", fault_->text,
                                 steps, fault_->step));
  }
  if (!mine_ || !(at_a_step || has(FaultKind::slow))) {
    return model;
  }
  if (!around_) {
    around_ = std::make_unique<FaultyModel>(model, *fault_, accum, wire_flip_due_);
  }
  return *around_;
}

}  // namespace brigade::apps
