// What a profiler recorded, in the JSON that chrome://tracing and Perfetto draw.
#pragma once

#include <filesystem>

#include "orlop/operation/profiler.hpp"

namespace orlop::inline v0 {

/// Writes the events of `profiler` as a Chrome trace: a track of nested operations, and beside it tracks of
/// moves and of residency transitions, as many as overlap. Times are microseconds after the first event.
///
/// The file appears whole or not at all (orlop/io/user_file.hpp). Errors: RuntimeError before the profiler's
/// exit, OSError.
ORLOP_API void export_chrome_trace(const Profiler& profiler, const std::filesystem::path& path);

}  // namespace orlop::inline v0
