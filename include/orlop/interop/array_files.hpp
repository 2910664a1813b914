// Arrays in files that other libraries read and write: NumPy's .npy and safetensors, streamed between a file
// and any carrier through a buffer of a few MiB.
//
// Protocol. A load reads the user's file and makes fresh carriers; the file is not changed or kept open. A
// save makes the whole file beside its name and renames it there (orlop/io/user_file.hpp): after a failure
// the name has what it had. Arrays lie in the file in row-major order or, in .npy, also first mode fastest,
// and nested modes as their leaves; a loaded Tensor has the file's order as its layout over contiguous slots.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "orlop/base/sequence.hpp"
#include "orlop/tensor/tensor.hpp"

namespace orlop::inline v0 {

/// Called after each block with the bytes done and the bytes in all; what it throws ends the transfer.
using FileProgress = std::function<void(Index done, Index total)>;

struct LoadOptions {
  Ref<Carrier> carrier{};  ///< each Tensor gets fresh storage of this one's kind; null: CPU
  FileProgress progress{};
};

/// The array of a .npy file, version 1 to 3. TypeError for elements other than float32, int32 and bool;
/// ValueError for a malformed, truncated or empty one; OSError.
[[nodiscard]] ORLOP_API Tensor load_npy(const std::filesystem::path& path, const LoadOptions& options = {});

/// Writes a Float32, Int32 or Bool Tensor of one subtensor, whatever its carrier and layout.
ORLOP_API void save_npy(const std::filesystem::path& path, const Tensor& tensor,
                        const FileProgress& progress = {});

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using FileMetadata = std::vector<std::pair<std::string, std::string>>;

/// The Tensors of a safetensors file in the order of their bytes. Errors as load_npy.
[[nodiscard]] ORLOP_API NamedTensors load_safetensors(const std::filesystem::path& path,
                                                      const LoadOptions& options = {});
/// Only these, in this order. KeyError for a name that the file lacks.
[[nodiscard]] ORLOP_API NamedTensors load_safetensors(const std::filesystem::path& path,
                                                      Sequence<std::string> names,
                                                      const LoadOptions& options = {});
/// The texts that a safetensors file holds beside its Tensors.
[[nodiscard]] ORLOP_API FileMetadata safetensors_metadata(const std::filesystem::path& path);

struct SaveSafetensorsOptions {
  FileMetadata metadata{};
  FileProgress progress{};
};

/// Writes Float32, Int32 and Bool Tensors under distinct names. ValueError for a name twice.
ORLOP_API void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                                const SaveSafetensorsOptions& options = {});

}  // namespace orlop::inline v0
