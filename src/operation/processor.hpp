// Which of the units compiled for one instruction set each (see instruction_set.hpp) this processor can run.
#pragma once

#include <cstdint>

namespace orlop::inline v0 {

enum class Processor : std::uint8_t { baseline, x86_64_v3, x86_64_v4 };

/// The newest one.
[[nodiscard]] Processor native_processor();

/// Whether the processor that this runs on reads ahead of a loop from one page of memory to the next.
[[nodiscard]] bool reads_ahead_across_pages();

/// The function of the unit for this processor. Those of newer units must not even be called.
template <class T>
[[nodiscard]] T* native_of(T* baseline, T* x86_64_v3, T* x86_64_v4) {
  switch (native_processor()) {
    case Processor::x86_64_v4:
      return x86_64_v4;
    case Processor::x86_64_v3:
      return x86_64_v3;
    default:
      return baseline;
  }
}

}  // namespace orlop::inline v0
