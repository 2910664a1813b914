// MetalRuntime: what the Metal carrier asks of whoever runs its kernels, an Apple device or the emulator, and
// the choice between them.
//
// A runtime is chosen once per process, before the first Metal carrier; nothing chooses the emulator but
// `use_metal_runtime("emulated")` or the environment variable ORLOP_METAL_RUNTIME.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "orlop/base/export.hpp"

namespace orlop::inline v0 {

/// Memory that both the processor and the device see; freed with the last holder.
class ORLOP_API MetalBuffer {
 public:
  MetalBuffer() noexcept = default;
  MetalBuffer(const MetalBuffer&) = delete;
  MetalBuffer& operator=(const MetalBuffer&) = delete;
  virtual ~MetalBuffer();
  [[nodiscard]] virtual std::byte* contents() noexcept = 0;
  [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;
};

/// A compiled kernel.
class ORLOP_API MetalPipeline {
 public:
  MetalPipeline() noexcept = default;
  MetalPipeline(const MetalPipeline&) = delete;
  MetalPipeline& operator=(const MetalPipeline&) = delete;
  virtual ~MetalPipeline();
};

/// A buffer argument from a byte on.
struct MetalBinding {
  std::shared_ptr<MetalBuffer> buffer;
  std::size_t offset = 0;
};

/// How many threadgroups a dispatch has.
struct MetalGrid {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
};

/// A sequence of dispatches, each of which sees what the ones before it wrote: `encode` any number of times,
/// `commit` once, `wait` once. A buffer lives until `wait` returns.
class ORLOP_API MetalCommands {
 public:
  MetalCommands() noexcept = default;
  MetalCommands(const MetalCommands&) = delete;
  MetalCommands& operator=(const MetalCommands&) = delete;
  virtual ~MetalCommands();
  /// The kernel's scalar arguments follow its buffers, 8 bytes each.
  virtual void encode(const MetalPipeline& pipeline, std::span<const MetalBinding> buffers,
                      std::span<const std::int64_t> constants, MetalGrid groups) = 0;
  virtual void commit() = 0;
  /// Returns when everything has run. RuntimeError with the device's words where it has not.
  virtual void wait() = 0;
};

/// Open to tests, which pass their own to `replace_metal_runtime`. Usable from many threads.
class ORLOP_API MetalRuntime {
 public:
  MetalRuntime() noexcept = default;
  MetalRuntime(const MetalRuntime&) = delete;
  MetalRuntime& operator=(const MetalRuntime&) = delete;
  virtual ~MetalRuntime();
  /// "apple" or "emulated".
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  [[nodiscard]] virtual std::string device_name() const = 0;
  [[nodiscard]] virtual std::size_t largest_buffer_bytes() const noexcept = 0;
  /// Null where there is no room. The bytes are unspecified.
  [[nodiscard]] virtual std::shared_ptr<MetalBuffer> allocate(std::size_t bytes) = 0;
  /// The kernel of this name, compiled at its first use. RuntimeError with the compiler's words.
  [[nodiscard]] virtual std::shared_ptr<const MetalPipeline> pipeline(std::string_view kernel) = 0;
  [[nodiscard]] virtual std::unique_ptr<MetalCommands> begin() = 0;
};

struct MetalRuntimeInfo {
  std::string runtime;  ///< "apple" or "emulated"
  std::string device;
  std::size_t largest_buffer_bytes;
};

/// Chooses "apple" or "emulated". ValueError for another name; RuntimeError where that runtime does not exist
/// here, or another one is in use already.
ORLOP_API void use_metal_runtime(std::string_view name);
/// The runtime in use, or the one that the next Metal carrier would take; nothing where there is none.
/// RuntimeError where ORLOP_METAL_RUNTIME names another than the two.
[[nodiscard]] ORLOP_API std::optional<MetalRuntimeInfo> metal_runtime_info();

namespace detail {
/// The runtime in use, chosen now if it was not. RuntimeError ‹no Metal runtime is available› with what is
/// missing and what to do.
[[nodiscard]] ORLOP_API std::shared_ptr<MetalRuntime> metal_runtime();
/// Puts another runtime in the place of the one in use and returns that; for tests.
ORLOP_API std::shared_ptr<MetalRuntime> replace_metal_runtime(std::shared_ptr<MetalRuntime> runtime);
/// Runs the shipped MSL on the processor, with every access checked.
[[nodiscard]] ORLOP_API std::shared_ptr<MetalRuntime> emulated_metal_runtime();
/// The system's device; null where there is none.
[[nodiscard]] ORLOP_API std::shared_ptr<MetalRuntime> apple_metal_runtime();
}  // namespace detail

}  // namespace orlop::inline v0
