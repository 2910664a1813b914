// DLPack and array files from C++: what the Python tests cannot see of ownership, and the C++ names.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "orlop/carriers/cpu/cpu.hpp"
#include "orlop/carriers/file_backed/file_backed.hpp"
#include "orlop/interop/array_files.hpp"
#include "orlop/interop/dlpack.hpp"
#include "orlop/interop/friendly.hpp"

namespace orlop {
namespace {

Tensor numbers(Index count) { return friendly::arange(count); }

TEST(DLPack, ExportsAndImportsShareMemoryUntilTheLastIsGone) {
  const Tensor tensor = numbers(100);
  DLManagedTensorVersioned* lent = to_dlpack_versioned(tensor);
  EXPECT_EQ(lent->version.major, 1U);
  EXPECT_EQ(lent->flags, 0U);
  const Tensor borrowed = from_dlpack(lent);
  borrowed.set(Coordinate(3), Scalar(9.0));
  EXPECT_EQ(tensor.at(Coordinate(3)).to_binary64(), 9.0);
  DLManagedTensor* again = to_dlpack(borrowed);
  tensor.carrier()->release();
  borrowed.carrier()->release();
  EXPECT_EQ(static_cast<const float*>(again->dl_tensor.data)[3], 9.0F);
  again->deleter(again);
  EXPECT_THROW(static_cast<void>(to_dlpack(tensor)), BufferError);
}

TEST(DLPack, AnImportThatFailsLeavesTheStructToItsProducer) {
  static int deleted = 0;
  std::array<float, 4> values{1, 2, 3, 4};
  std::array<std::int64_t, 1> shape{4};
  std::array<std::int64_t, 1> strides{-1};
  DLManagedTensor managed{};
  managed.dl_tensor = {values.data() + 3, {1, 0},         1, {dlpack::float_code, 32, 1},
                       shape.data(),      strides.data(), 0};
  managed.deleter = [](DLManagedTensor*) { ++deleted; };
  EXPECT_THROW(static_cast<void>(from_dlpack(&managed)), ValueError);
  EXPECT_EQ(deleted, 0);
  const Tensor copied = from_dlpack(&managed, {.copy = true});
  EXPECT_EQ(deleted, 1);
  EXPECT_EQ(copied.at(Coordinate(0)).to_binary64(), 4.0);
  DLManagedTensor* const none = nullptr;
  EXPECT_THROW(static_cast<void>(from_dlpack(none)), BufferError);
}

TEST(ArrayFiles, TensorsGoToFilesAndBack) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("orlop-interop-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const Tensor tensor = numbers(10);
  save_npy(folder / "a.npy", tensor);
  EXPECT_EQ(friendly::item(friendly::sum(load_npy(folder / "a.npy"))).to_binary64(), 45.0);

  Index told = 0;
  save_safetensors(folder / "b", {{"x", tensor}, {"y", tensor}},
                   {.metadata = {{"k", "v"}}, .progress = [&](Index done, Index) { told = done; }});
  EXPECT_EQ(told, 80);
  EXPECT_EQ(safetensors_metadata(folder / "b"), (FileMetadata{{"k", "v"}}));
  const std::array<std::string, 1> names{"y"};
  const NamedTensors loaded =
      load_safetensors(folder / "b", names, {.carrier = FileBacked::make(dtypes::Float32)});
  ASSERT_EQ(loaded.size(), 1U);
  EXPECT_EQ(loaded[0].second.carrier_type(), carrier_class<FileBacked>());
  EXPECT_EQ(loaded[0].second.at(Coordinate(9)).to_binary64(), 9.0);
  EXPECT_THROW(static_cast<void>(load_safetensors(folder / "a.npy")), ValueError);
  EXPECT_THROW(static_cast<void>(load_npy(folder / "none")), OSError);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace orlop
