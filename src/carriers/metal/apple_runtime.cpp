// The system's Metal device, by way of metal-cpp: shared memory, one command queue, kernels compiled from the
// shipped MSL at their first use.
//
// Ownership is that of Cocoa: what a `new` or `alloc` gives is ours (TransferPtr), everything else belongs to
// the pool of the calling thread and is retained to outlive it (RetainPtr). A command buffer retains what is
// bound to it until it has run. Buffers are tracked and the encoder is serial, so that each dispatch sees
// what those before it wrote; the processor sees it once the command buffer has completed. Queue, device and
// pipelines may be used by many threads, a command buffer by the one that made it.
//
// Built where ORLOP_METAL_CPP is set (cmake/metal.cmake). Elsewhere only the compiler has seen this file:
// `./dev check metal` compiles it against the real headers; what a Mac alone can prove is in docs/metal.md.
#if defined(ORLOP_METAL_CPP)

#define NS_PRIVATE_IMPLEMENTATION
#define MTL_PRIVATE_IMPLEMENTATION
#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>

#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "carriers/metal/kernel_manifest.hpp"
#include "orlop/base/error.hpp"
#include "orlop/carriers/metal/runtime.hpp"

namespace orlop::inline v0 {

namespace {

NS::String* to_string(std::string_view words) {
  return NS::String::string(std::string(words).c_str(), NS::UTF8StringEncoding);
}

std::string words_of(const NS::Error* error) {
  const NS::String* const words = error == nullptr ? nullptr : error->localizedDescription();
  const char* const text = words == nullptr ? nullptr : words->utf8String();
  return text == nullptr ? "no reason is given" : text;
}

/// Metal's own temporary objects live no longer than this.
class Pool {
 public:
  Pool() : pool_(NS::TransferPtr(NS::AutoreleasePool::alloc()->init())) {}

 private:
  NS::SharedPtr<NS::AutoreleasePool> pool_;
};

class AppleBuffer final : public MetalBuffer {
 public:
  explicit AppleBuffer(NS::SharedPtr<MTL::Buffer> buffer) : buffer_(std::move(buffer)) {}
  [[nodiscard]] std::byte* contents() noexcept override {
    return static_cast<std::byte*>(buffer_->contents());
  }
  [[nodiscard]] std::size_t bytes() const noexcept override { return buffer_->length(); }
  [[nodiscard]] const MTL::Buffer* metal() const noexcept { return buffer_.get(); }

 private:
  NS::SharedPtr<MTL::Buffer> buffer_;
};

struct ApplePipeline final : MetalPipeline {
  ApplePipeline(NS::SharedPtr<MTL::ComputePipelineState> state, int threads)
      : state(std::move(state)), threads(threads) {}
  NS::SharedPtr<MTL::ComputePipelineState> state;
  int threads;
};

/// One serial encoder: every dispatch sees what the ones before it wrote.
class AppleCommands final : public MetalCommands {
 public:
  explicit AppleCommands(MTL::CommandQueue& queue) {
    const Pool pool;
    buffer_ = retained(queue.commandBuffer());
    encoder_ = retained(buffer_->computeCommandEncoder());
  }
  ~AppleCommands() override {
    if (encoder_.get() == nullptr) return;
    const Pool pool;
    encoder_->endEncoding();  // Metal wants it even for what is never committed
    encoder_.reset();
  }

  void encode(const MetalPipeline& pipeline, std::span<const MetalBinding> buffers,
              std::span<const std::int64_t> constants, MetalGrid groups) override {
    const Pool pool;
    const auto& apple = static_cast<const ApplePipeline&>(pipeline);
    encoder_->setComputePipelineState(apple.state.get());
    NS::UInteger index = 0;
    for (const MetalBinding& binding : buffers)
      encoder_->setBuffer(static_cast<const AppleBuffer&>(*binding.buffer).metal(), binding.offset, index++);
    encoder_->setBytes(constants.data(), constants.size_bytes(), index);
    encoder_->dispatchThreadgroups(MTL::Size(groups.x, groups.y, 1),
                                   MTL::Size(static_cast<NS::UInteger>(apple.threads), 1, 1));
  }

  void commit() override {
    const Pool pool;
    encoder_->endEncoding();
    encoder_.reset();
    buffer_->commit();
  }

  void wait() override {
    const Pool pool;
    buffer_->waitUntilCompleted();
    if (buffer_->status() != MTL::CommandBufferStatusCompleted)
      raise<RuntimeError>("Metal", "the device did not run the kernels: ", words_of(buffer_->error()));
  }

 private:
  template <class T>
  [[nodiscard]] static NS::SharedPtr<T> retained(T* object) {
    if (object == nullptr) raise<RuntimeError>("Metal", "the device takes no commands");
    return NS::RetainPtr(object);
  }

  NS::SharedPtr<MTL::CommandBuffer> buffer_;
  NS::SharedPtr<MTL::ComputeCommandEncoder> encoder_;
};

class AppleRuntime final : public MetalRuntime {
 public:
  explicit AppleRuntime(NS::SharedPtr<MTL::Device> device)
      : device_(std::move(device)), queue_(NS::TransferPtr(device_->newCommandQueue())) {
    if (queue_.get() == nullptr) raise<RuntimeError>("Metal", "the device gives no command queue");
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "apple"; }
  [[nodiscard]] std::string device_name() const override {
    const Pool pool;
    return device_->name()->utf8String();
  }
  [[nodiscard]] std::size_t largest_buffer_bytes() const noexcept override {
    return device_->maxBufferLength();
  }

  [[nodiscard]] std::shared_ptr<MetalBuffer> allocate(std::size_t bytes) override {
    require_own_process();
    const Pool pool;
    NS::SharedPtr<MTL::Buffer> buffer =
        NS::TransferPtr(device_->newBuffer(bytes, MTL::ResourceStorageModeShared));
    return buffer.get() == nullptr ? nullptr : std::make_shared<AppleBuffer>(std::move(buffer));
  }

  [[nodiscard]] std::shared_ptr<const MetalPipeline> pipeline(std::string_view kernel) override {
    const MetalKernel* const known = find_metal_kernel(kernel);
    if (known == nullptr) raise<RuntimeError>("Metal", "no kernel has the name ", kernel);
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const MetalPipeline>& pipeline = pipelines_[known->name];
    if (pipeline == nullptr) pipeline = compile(*known);
    return pipeline;
  }

  [[nodiscard]] std::unique_ptr<MetalCommands> begin() override {
    require_own_process();
    return std::make_unique<AppleCommands>(*queue_.get());
  }

 private:
  void require_own_process() const {
    if (::getpid() != process_)
      raise<RuntimeError>("Metal", "a forked process has no device: the one in use belongs to process ",
                          process_, "; use CPU here, or start the process anew instead of by fork");
  }

  [[nodiscard]] std::shared_ptr<const MetalPipeline> compile(const MetalKernel& kernel) {
    const Pool pool;
    NS::Error* error = nullptr;
    MTL::Library& family = library(kernel.family);
    const NS::SharedPtr<MTL::Function> function = NS::TransferPtr(family.newFunction(to_string(kernel.name)));
    if (function.get() == nullptr) raise<RuntimeError>("Metal", "the compiled kernels lack ", kernel.name);
    NS::SharedPtr<MTL::ComputePipelineState> state =
        NS::TransferPtr(device_->newComputePipelineState(function.get(), &error));
    if (state.get() == nullptr)
      raise<RuntimeError>("Metal", "no pipeline for ", kernel.name, ": ", words_of(error));
    if (state->maxTotalThreadsPerThreadgroup() < static_cast<NS::UInteger>(kernel.threads))
      raise<RuntimeError>("Metal", kernel.name, " wants ", kernel.threads,
                          " threads in a group; the device runs ", state->maxTotalThreadsPerThreadgroup(),
                          " at most");
    return std::make_shared<ApplePipeline>(std::move(state), kernel.threads);
  }

  [[nodiscard]] MTL::Library& library(std::string_view family) {
    NS::SharedPtr<MTL::Library>& library = libraries_[family];
    if (library.get() != nullptr) return *library.get();
    const auto source = std::ranges::find(metal_sources(), family, &MetalSource::family);
    const NS::SharedPtr<MTL::CompileOptions> options = NS::TransferPtr(MTL::CompileOptions::alloc()->init());
    options->setLanguageVersion(MTL::LanguageVersion3_0);
    // Fast math would reorder sums, forget about NaN, and take the functions of lower precision.
    if (NS::ProcessInfo::processInfo()->isOperatingSystemAtLeastVersion({15, 0, 0})) {
      options->setMathMode(MTL::MathModeSafe);
      options->setMathFloatingPointFunctions(MTL::MathFloatingPointFunctionsPrecise);
    } else {
      options->setFastMathEnabled(false);
    }
    NS::Error* error = nullptr;
    library = NS::TransferPtr(device_->newLibrary(to_string(source->text), options.get(), &error));
    if (library.get() == nullptr)
      raise<RuntimeError>("Metal", "the compiler refuses the ", family, " kernels: ", words_of(error));
    return *library.get();
  }

  NS::SharedPtr<MTL::Device> device_;
  NS::SharedPtr<MTL::CommandQueue> queue_;
  pid_t process_ = ::getpid();
  std::mutex mutex_;  // of both maps
  std::map<std::string_view, NS::SharedPtr<MTL::Library>> libraries_;
  std::map<std::string_view, std::shared_ptr<const MetalPipeline>> pipelines_;
};

}  // namespace

std::shared_ptr<MetalRuntime> detail::apple_metal_runtime() {
  const Pool pool;
  NS::SharedPtr<MTL::Device> device = NS::TransferPtr(MTL::CreateSystemDefaultDevice());
  // Apple silicon from the M1 on, with macOS 13 or newer, whose language the kernels are compiled in.
  const bool is_there = device.get() != nullptr && device->supportsFamily(MTL::GPUFamilyApple7) &&
                        device->supportsFamily(MTL::GPUFamilyMetal3);
  return is_there ? std::make_shared<AppleRuntime>(std::move(device)) : nullptr;
}

}  // namespace orlop::inline v0

#endif
