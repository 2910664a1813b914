// The emulator: the shipped MSL, translated by the build and compiled for the processor, one threadgroup at a
// time.
//
// Where a kernel has barriers, the threads of a group are fibers that take turns between them; otherwise they
// run one after another. Threadgroup memory is filled with garbage before each group. Nothing here is fast:
// it exists to prove the kernels, and reports every access outside a buffer.
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <vector>

#include "carriers/metal/emulation.hpp"
#include "carriers/metal/kernel_manifest.hpp"
#include "orlop/base/error.hpp"
#include "orlop/carriers/metal/runtime.hpp"
#include "storage/host_memory.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace orlop::inline v0 {

namespace emulation {

namespace {

/// The threads of one group, each on a stack of its own.
class Fibers {
 public:
  /// Runs `body(thread)` for each of `count` threads; they meet at `barrier`.
  void run(std::size_t count, const std::function<void(std::size_t)>& body) {
    body_ = &body;
    while (stacks_.size() < count) stacks_.emplace_back(stack_bytes);
    contexts_.resize(count);
    is_done_.assign(count, false);
    failure_ = nullptr;
    for (std::size_t thread = 0; thread < count; ++thread) {
      ucontext_t& context = contexts_[thread];
      getcontext(&context);
      context.uc_stack.ss_sp = stacks_[thread].data();
      context.uc_stack.ss_size = stack_bytes;
      context.uc_link = &scheduler_;
      makecontext(&context, &Fibers::enter, 0);
    }
    for (std::size_t finished = 0; finished < count;) {
      for (current_ = 0; current_ < count; ++current_) {
        resume();
        if (failure_ != nullptr) std::rethrow_exception(failure_);  // the others hold nothing to clean up
      }
      finished = static_cast<std::size_t>(std::count(is_done_.begin(), is_done_.end(), true));
      if (finished != 0 && finished != count)
        raise<RuntimeError>("Metal emulator", finished, " of ", count,
                            " threads ended while the others wait at a barrier");
    }
  }

  void barrier() { leave(); }

 private:
  static constexpr std::size_t stack_bytes = std::size_t{64} << 10;

  static void enter();
  void resume();
  void leave();

  const std::function<void(std::size_t)>* body_ = nullptr;
  std::deque<std::vector<std::byte>> stacks_;
  std::vector<ucontext_t> contexts_;
  std::vector<bool> is_done_;
  std::size_t current_ = 0;
  std::exception_ptr failure_;
  ucontext_t scheduler_{};
  // What the address sanitizer is told at each switch.
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_stack_bytes_ = 0;
};

thread_local Fibers fibers;

void Fibers::resume() {
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stacks_[current_].data(), stack_bytes);
#endif
  swapcontext(&scheduler_, &contexts_[current_]);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
}

void Fibers::leave() {
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, scheduler_stack_, scheduler_stack_bytes_);
#endif
  swapcontext(&contexts_[current_], &scheduler_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, &scheduler_stack_, &scheduler_stack_bytes_);
#endif
}

void Fibers::enter() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &fibers.scheduler_stack_, &fibers.scheduler_stack_bytes_);
#endif
  const std::size_t thread = fibers.current_;
  try {
    (*fibers.body_)(thread);
  } catch (...) {
    fibers.failure_ = std::current_exception();
  }
  fibers.is_done_[thread] = true;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(nullptr, fibers.scheduler_stack_, fibers.scheduler_stack_bytes_);
#endif
}

}  // namespace

void Launch::barrier() { fibers.barrier(); }

std::byte* Launch::shared_memory(std::string_view name, std::size_t bytes) {
  for (const auto& [known, memory] : shared_)
    if (known == name) return memory.get();
  // Whatever was there before: a kernel that reads what it has not written shows it.
  constexpr int garbage = 0xa5;
  std::unique_ptr<std::byte[]> memory = std::make_unique<std::byte[]>(bytes);
  std::memset(memory.get(), garbage, bytes);
  return shared_.emplace_back(name, std::move(memory)).second.get();
}

}  // namespace emulation

namespace {

class EmulatedBuffer final : public MetalBuffer {
 public:
  EmulatedBuffer(std::shared_ptr<std::byte> memory, std::size_t bytes) noexcept
      : memory_(std::move(memory)), bytes_(bytes) {}
  [[nodiscard]] std::byte* contents() noexcept override { return memory_.get(); }
  [[nodiscard]] std::size_t bytes() const noexcept override { return bytes_; }

 private:
  std::shared_ptr<std::byte> memory_;
  std::size_t bytes_;
};

/// A kernel as the build made it, alive as long as the library.
struct Compiled {
  const emulation::Entry* entry;
  const MetalKernel* kernel;
};

struct EmulatedPipeline final : MetalPipeline {
  explicit EmulatedPipeline(Compiled compiled) noexcept : compiled(compiled) {}
  Compiled compiled;
};

void run(const Compiled& compiled, std::span<const MetalBinding> bindings,
         std::span<const std::int64_t> constants, MetalGrid groups) {
  std::vector<emulation::Launch::Buffer> buffers;
  for (const MetalBinding& binding : bindings)
    buffers.push_back(
        {binding.buffer->contents() + binding.offset, binding.buffer->bytes() - binding.offset});
  emulation::Launch launch(buffers, std::as_bytes(constants));
  const auto threads = static_cast<std::size_t>(compiled.kernel->threads);
  for (std::uint32_t y = 0; y < groups.y; ++y)
    for (std::uint32_t x = 0; x < groups.x; ++x) {
      launch.begin_group();
      const auto body = [&](std::size_t thread) {
        try {
          compiled.entry->run(launch, {x, y, 0}, {static_cast<unsigned>(thread), 0, 0});
        } catch (const emulation::Outside& outside) {
          raise<RuntimeError>(compiled.kernel->name, "thread ", thread, " of threadgroup (", x, ", ", y,
                              ") reaches element ", outside.index, " of ", outside.name, ", which has ",
                              outside.count);
        }
      };
      if (compiled.entry->has_barrier)
        emulation::fibers.run(threads, body);
      else
        for (std::size_t thread = 0; thread < threads; ++thread) body(thread);
    }
}

/// Runs everything at `commit` and keeps what went wrong for `wait`, as a device does.
class EmulatedCommands final : public MetalCommands {
 public:
  void encode(const MetalPipeline& pipeline, std::span<const MetalBinding> buffers,
              std::span<const std::int64_t> constants, MetalGrid groups) override {
    dispatches_.push_back({static_cast<const EmulatedPipeline&>(pipeline).compiled,
                           {buffers.begin(), buffers.end()},
                           {constants.begin(), constants.end()},
                           groups});
  }
  void commit() override {
    try {
      for (const Dispatch& dispatch : dispatches_)
        run(dispatch.compiled, dispatch.buffers, dispatch.constants, dispatch.groups);
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  void wait() override {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  struct Dispatch {
    Compiled compiled;
    std::vector<MetalBinding> buffers;
    std::vector<std::int64_t> constants;
    MetalGrid groups;
  };
  std::vector<Dispatch> dispatches_;
  std::exception_ptr failure_;
};

class EmulatedRuntime final : public MetalRuntime {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "emulated"; }
  [[nodiscard]] std::string device_name() const override {
    return "the processor, running Metal kernels by emulation";
  }
  [[nodiscard]] std::size_t largest_buffer_bytes() const noexcept override { return std::size_t{8} << 30; }
  [[nodiscard]] std::shared_ptr<MetalBuffer> allocate(std::size_t bytes) override {
    std::shared_ptr<std::byte> memory = allocate_host_memory(bytes, false);
    return memory == nullptr ? nullptr : std::make_shared<EmulatedBuffer>(std::move(memory), bytes);
  }
  [[nodiscard]] std::shared_ptr<const MetalPipeline> pipeline(std::string_view kernel) override {
    const auto entry = std::ranges::find(emulation::entries(), kernel, &emulation::Entry::name);
    const MetalKernel* const known = find_metal_kernel(kernel);
    if (entry == emulation::entries().end() || known == nullptr)
      raise<RuntimeError>("Metal", "no kernel has the name ", kernel);
    return std::make_shared<EmulatedPipeline>(Compiled{&*entry, known});
  }
  [[nodiscard]] std::unique_ptr<MetalCommands> begin() override {
    return std::make_unique<EmulatedCommands>();
  }
};

}  // namespace

std::shared_ptr<MetalRuntime> detail::emulated_metal_runtime() { return std::make_shared<EmulatedRuntime>(); }

}  // namespace orlop::inline v0
