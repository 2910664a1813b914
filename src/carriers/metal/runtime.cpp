// The choice of the process's Metal runtime.
#include "orlop/carriers/metal/runtime.hpp"

#include <cstdlib>
#include <mutex>

#include "orlop/base/error.hpp"

namespace orlop::inline v0 {

MetalBuffer::~MetalBuffer() = default;
MetalPipeline::~MetalPipeline() = default;
MetalCommands::~MetalCommands() = default;
MetalRuntime::~MetalRuntime() = default;

#if !defined(ORLOP_METAL_CPP)
std::shared_ptr<MetalRuntime> detail::apple_metal_runtime() { return nullptr; }
#endif

namespace {

struct Choice {
  std::mutex mutex;
  std::shared_ptr<MetalRuntime> runtime;
};

Choice& choice() {
  static auto& instance = *std::make_unique<Choice>().release();  // carriers may outlive static objects
  return instance;
}

constexpr std::string_view what_is_needed =
    "Metal needs macOS on Apple silicon (macOS 13 or newer); use CPU here, or, for tests, the emulator: "
    "orlop.carriers.metal.use_runtime(\"emulated\") or ORLOP_METAL_RUNTIME=emulated";

bool is_runtime_name(std::string_view name) { return name == "emulated" || name == "apple"; }

/// The runtime of this name, or null where it does not exist here.
std::shared_ptr<MetalRuntime> find_runtime(std::string_view name) {
  return name == "emulated" ? detail::emulated_metal_runtime() : detail::apple_metal_runtime();
}

/// What the environment asks for, or else the system's device; null where there is none.
std::shared_ptr<MetalRuntime> default_runtime() {
  const char* const wanted = std::getenv("ORLOP_METAL_RUNTIME");
  const std::string_view name = wanted != nullptr && *wanted != '\0' ? wanted : "apple";
  if (!is_runtime_name(name))
    raise<RuntimeError>("Metal", "no Metal runtime is available: ORLOP_METAL_RUNTIME is ", name,
                        "; it may be \"apple\" or \"emulated\"; ", what_is_needed);
  return find_runtime(name);
}

}  // namespace

void use_metal_runtime(std::string_view name) {
  if (!is_runtime_name(name))
    raise<ValueError>("Metal", "no runtime has the name ", name, "; \"apple\" and \"emulated\" do");
  std::shared_ptr<MetalRuntime> runtime = find_runtime(name);
  if (runtime == nullptr)
    raise<RuntimeError>("Metal", "there is no runtime ", name, " here; ", what_is_needed);
  Choice& chosen = choice();
  const std::lock_guard lock(chosen.mutex);
  if (chosen.runtime != nullptr && chosen.runtime->name() != name)
    raise<RuntimeError>("Metal", "this process uses the runtime ", chosen.runtime->name(),
                        " already; choose ", name, " before the first Metal carrier");
  if (chosen.runtime == nullptr) chosen.runtime = std::move(runtime);
}

std::optional<MetalRuntimeInfo> metal_runtime_info() {
  Choice& chosen = choice();
  const std::lock_guard lock(chosen.mutex);
  const std::shared_ptr<MetalRuntime> runtime = chosen.runtime ? chosen.runtime : default_runtime();
  if (runtime == nullptr) return std::nullopt;
  return MetalRuntimeInfo{std::string(runtime->name()), runtime->device_name(),
                          runtime->largest_buffer_bytes()};
}

std::shared_ptr<MetalRuntime> detail::metal_runtime() {
  Choice& chosen = choice();
  const std::lock_guard lock(chosen.mutex);
  if (chosen.runtime == nullptr) chosen.runtime = default_runtime();
  if (chosen.runtime == nullptr)
    raise<RuntimeError>("Metal", "no Metal runtime is available: this process has none; ", what_is_needed);
  return chosen.runtime;
}

std::shared_ptr<MetalRuntime> detail::replace_metal_runtime(std::shared_ptr<MetalRuntime> runtime) {
  Choice& chosen = choice();
  const std::lock_guard lock(chosen.mutex);
  return std::exchange(chosen.runtime, std::move(runtime));
}

}  // namespace orlop::inline v0
