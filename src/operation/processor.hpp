// Which of the units compiled for one instruction set each (see instruction_set.hpp) this processor can run.
#pragma once

#include <cstdint>

namespace orlop::inline v0 {

enum class Processor : std::uint8_t { baseline, x86_64_v3, x86_64_v4 };

/// The newest one.
[[nodiscard]] Processor native_processor();

}  // namespace orlop::inline v0
