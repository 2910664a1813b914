// The namespace of code that is compiled once for each instruction set (see cmake/library.cmake): a unit
// named …_x86_64_v3.cpp defines ORLOP_INSTRUCTION_SET as x86_64_v3 before anything else; every other unit is
// the baseline.
//
// Such code instantiates nothing of the standard library and calls no inline function of a shared namespace:
// the linker keeps one copy of those, and must not keep the one for a newer processor.
#pragma once

#ifndef ORLOP_INSTRUCTION_SET
#define ORLOP_INSTRUCTION_SET baseline
#endif

namespace orlop::inline v0::ORLOP_INSTRUCTION_SET {

/// The size of this unit's registers.
#if defined(__AVX512F__)
constexpr int register_bytes = 64;
#elif defined(__AVX2__)
constexpr int register_bytes = 32;
#else
constexpr int register_bytes = 16;
#endif

}  // namespace orlop::inline v0::ORLOP_INSTRUCTION_SET
