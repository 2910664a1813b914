// FileBacked: construction, values, growth, factories, faults, forks and many carriers at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <thread>

#include "files.hpp"
#include "orlop/carriers/cpu/cpu.hpp"
#include "orlop/carriers/file_backed/file_backed.hpp"
#include "orlop/carriers/routes.hpp"
#include "orlop/dtype/compound.hpp"
#include "orlop/io/io_script.hpp"
#include "orlop/io/session_directory.hpp"
#include "orlop/operation/capability.hpp"
#include "orlop/operation/operation.hpp"

namespace orlop::inline v0 {
namespace {

namespace fs = std::filesystem;
using detail::IoScript;
using detail::IoScriptOptions;
using detail::IoStep;
using detail::ScopedIoCalls;
using testing::HasSubstr;
using testing_support::code_of;
using testing_support::message_of;
using testing_support::open_descriptors;
using testing_support::Place;
using testing_support::script;
using Kind = IoStep::Kind;

// In memory where there is such a place: tens of thousands of small files would keep a disk's journal busy.
const auto* const kPlace = testing::AddGlobalTestEnvironment(new Place(
    fs::is_directory("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path(), "file-backed"));

std::size_t files() {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(detail::session_directory()), fs::directory_iterator()));
}

std::vector<float> floats_in(const fs::path& path) {
  std::vector<float> values(fs::file_size(path) / sizeof(float));
  std::ifstream(path, std::ios::binary)
      .read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(float)));
  return values;
}

// What a file system says to a file beyond its limit or its room.
const auto kTooLarge = testing::AnyOf(EFBIG, ENOSPC);

Ref<FileBacked> floats(Index size) {
  Ref<FileBacked> carrier = FileBacked::make(dtypes::Float32);
  carrier->allocate(size);
  return carrier;
}

TEST(FileBacked, StartsEmptyInAFileOfItsOwn) {
  const Ref<FileBacked> first = FileBacked::make(dtypes::Float32);
  const Ref<FileBacked> second = FileBacked::make(dtypes::Int32, {.filename = "weights.bin"});
  EXPECT_EQ(first->size(), 0);
  EXPECT_EQ(fs::file_size(first->path()), 0U);
  EXPECT_EQ(first->path().parent_path(), detail::session_directory());
  EXPECT_EQ(second->path().filename(), "weights.bin");
  EXPECT_NE(first->path(), second->path());
  EXPECT_EQ(&second->dtype(), &dtypes::Int32);
  EXPECT_TRUE(first->is_mutable());
  EXPECT_EQ(first->version(), 0);
}

TEST(FileBacked, RefusesBadDtypesAndNamesBeforeMakingAFile) {
  const std::size_t before = files();
  const DTypeRef refused[] = {dtypes::Any,  dtypes::Floating, dtypes::Integer, dtypes::Bool,
                              dtypes::Int8, dtypes::Float64,  dtypes::MXFP4};
  for (const DTypeRef dtype : refused)
    EXPECT_THROW(static_cast<void>(FileBacked::make(*dtype, {.filename = "refused"})), ValueError);
  EXPECT_THAT(message_of<ValueError>([] { static_cast<void>(FileBacked::make(dtypes::MXFP4)); }),
              HasSubstr("multi-plane"));
  EXPECT_THAT(message_of<ValueError>([] { static_cast<void>(FileBacked::make(dtypes::Bool)); }),
              HasSubstr("FileBacked dtype must be DType.Float32 or DType.Int32"));
  for (const std::string& name : {std::string(), std::string("."), std::string(".."), std::string("a/b"),
                                  std::string("/tmp/a"), std::string("a\0b", 3)})
    EXPECT_THAT(message_of<ValueError>(
                    [&] { static_cast<void>(FileBacked::make(dtypes::Float32, {.filename = name})); }),
                HasSubstr("bare file name"));
  EXPECT_EQ(files(), before);
}

TEST(FileBacked, NeverReplacesAnExistingFile) {
  const Ref<FileBacked> first = FileBacked::make(dtypes::Float32, {.filename = "taken"});
  first->allocate(2);
  EXPECT_EQ(code_of([] { static_cast<void>(FileBacked::make(dtypes::Int32, {.filename = "taken"})); }),
            EEXIST);
  EXPECT_EQ(fs::file_size(first->path()), 8U);
}

TEST(FileBacked, SupportIsStructural) {
  const Ref<FileBacked> carrier = FileBacked::make(dtypes::Int32);
  for (const DTypeRef dtype :
       {DTypeRef(dtypes::Floating), DTypeRef(dtypes::Float32), DTypeRef(dtypes::Int32)})
    EXPECT_TRUE(carrier->supports_storage_dtype(*dtype));
  for (const DTypeRef dtype : {DTypeRef(dtypes::Any), DTypeRef(dtypes::Integer), DTypeRef(dtypes::Bool),
                               DTypeRef(dtypes::Float64), DTypeRef(dtypes::MXFP4)})
    EXPECT_FALSE(carrier->supports_storage_dtype(*dtype));
  carrier->release();
  EXPECT_TRUE(carrier->supports_storage_dtype(dtypes::Floating));
}

TEST(FileBacked, StoresNativeValuesOneVersionPerWrite) {
  const Ref<FileBacked> carrier = floats(3);
  EXPECT_EQ(carrier->version(), 0);
  EXPECT_EQ(floats_in(carrier->path()), (std::vector<float>{0, 0, 0}));
  carrier->store(0, Scalar(0.1));
  carrier->set_value(2, Scalar(1e60));
  EXPECT_EQ(carrier->version(), 2);
  EXPECT_EQ(carrier->at(0), Scalar(0.1F));
  EXPECT_EQ(floats_in(carrier->path()), (std::vector<float>{0.1F, 0, INFINITY}));

  const Ref<FileBacked> integers = FileBacked::make(dtypes::Int32);
  integers->allocate(2);
  integers->store(1, Scalar(std::numeric_limits<std::int32_t>::min()));
  EXPECT_EQ(integers->get_value(1), Scalar(std::numeric_limits<std::int32_t>::min()));
  EXPECT_THROW(integers->store(0, Scalar(1.0)), TypeError);
  EXPECT_THROW(integers->store(0, Scalar(true)), TypeError);
  EXPECT_THROW(integers->store(0, Scalar(std::int64_t{1} << 31)), OverflowError);
  EXPECT_EQ(integers->version(), 1);
  EXPECT_EQ(integers->get_value(0), Scalar(0));
}

TEST(FileBacked, KeepsSpecialValuesBitForBit) {
  const std::array<std::uint32_t, 6> bits{0x80000000U, 0x7fc12345U, 0xffa00001U,
                                          1U,          0x7f800000U, 0xff800000U};
  const Ref<FileBacked> carrier = floats(6);
  carrier->write_span(0, 6, bits.data());
  std::array<std::uint32_t, 6> back{};
  carrier->read_span(0, 6, back.data());
  EXPECT_EQ(back, bits);
}

TEST(FileBacked, MovesSpansOfSlots) {
  const Ref<FileBacked> carrier = floats(10);
  const std::array<float, 3> values{1, 2, 3};
  carrier->write_span(4, 3, values.data());
  carrier->write_span(0, 0, nullptr);
  std::array<float, 5> back{};
  carrier->read_span(3, 5, back.data());
  EXPECT_EQ(back, (std::array<float, 5>{0, 1, 2, 3, 0}));
  EXPECT_EQ(carrier->version(), 0);
}

TEST(FileBacked, ChecksIndexReleaseAndMutability) {
  const Ref<FileBacked> carrier = floats(3);
  for (const Index index : {Index{-1}, Index{3}, std::numeric_limits<Index>::max()}) {
    EXPECT_THROW(static_cast<void>(carrier->get_value(index)), IndexError);
    EXPECT_THROW(carrier->set_value(index, Scalar(1.0F)), IndexError);
  }
  const Ref<FileBacked> fixed = FileBacked::make(dtypes::Float32, {.is_mutable = false});
  EXPECT_FALSE(fixed->is_mutable());
  EXPECT_THAT(message_of<RuntimeError>([&] { fixed->set_value(0, Scalar(1.0F)); }), HasSubstr("not mutable"));
  EXPECT_THAT(message_of<RuntimeError>([&] { fixed->allocate(3); }), HasSubstr("not mutable"));
  EXPECT_EQ(carrier->version(), 0);
}

TEST(FileBacked, GrowsOnlyFromEmptyAndOnlyToWhatFits) {
  const Ref<FileBacked> carrier = FileBacked::make(dtypes::Float32);
  EXPECT_TRUE(carrier->is_growable());
  EXPECT_THROW(carrier->allocate(-1), ValueError);
  EXPECT_THROW(carrier->allocate(std::numeric_limits<Index>::max() / 2), OverflowError);
  EXPECT_THAT(code_of([&] { carrier->allocate(std::numeric_limits<Index>::max() / 4); }), kTooLarge);
  EXPECT_EQ(carrier->size(), 0);
  carrier->allocate(5);
  EXPECT_EQ(carrier->size(), 5);
  EXPECT_EQ(fs::file_size(carrier->path()), 20U);
  EXPECT_THROW(carrier->allocate(6), RuntimeError);
  EXPECT_EQ(carrier->version(), 0);
}

TEST(FileBacked, GrowsAgainWithZerosAfterDeallocation) {
  const Ref<FileBacked> carrier = floats(2);
  carrier->store(0, Scalar(7.0F));
  carrier->deallocate();
  EXPECT_EQ(carrier->size(), 0);
  EXPECT_EQ(fs::file_size(carrier->path()), 0U);
  carrier->allocate(2);
  EXPECT_EQ(floats_in(carrier->path()), (std::vector<float>{0, 0}));
  carrier->store(0, Scalar(7.0F));
  {
    const ScopedIoCalls scope(script({.fail_at = 1}));  // the truncation
    EXPECT_EQ(code_of([&] { carrier->deallocate(); }), EIO);
  }
  EXPECT_EQ(carrier->size(), 0);
  carrier->allocate(2);
  EXPECT_EQ(floats_in(carrier->path()), (std::vector<float>{0, 0}));
}

TEST(FileBacked, FactoriesMakeIndependentStorageAlsoFromAReleasedReceiver) {
  const Ref<FileBacked> carrier = floats(2);
  carrier->release();
  const std::array values{Scalar(1.5), Scalar(2), Scalar(true)};
  const Ref<Carrier> fresh = carrier->new_like(values);
  EXPECT_EQ(fresh->carrier_class(), carrier_class<FileBacked>());
  EXPECT_EQ(fresh->size(), 3);
  EXPECT_EQ(fresh->get_value(0), Scalar(1.5F));
  EXPECT_EQ(fresh->get_value(2), Scalar(1.0F));
  EXPECT_EQ(fresh->version(), 0);
  const Ref<Carrier> integers =
      carrier->allocate_like(4, {.is_mutable = false, .dtype = dtypes::Int32, .empty = true});
  EXPECT_EQ(&integers->dtype(), &dtypes::Int32);
  EXPECT_FALSE(integers->is_mutable());
  for (Index i = 0; i < 4; ++i) EXPECT_EQ(integers->get_value(i), Scalar(0));
}

TEST(FileBacked, AFailedFactoryLeavesNoFile) {
  const Ref<FileBacked> carrier = floats(1);
  const std::size_t before = files();
  const std::array mixed{Scalar(1), Scalar(2.5)};
  EXPECT_THROW(static_cast<void>(carrier->new_like(mixed, {.dtype = dtypes::Int32})), TypeError);
  EXPECT_THROW(static_cast<void>(carrier->new_like(mixed, {.dtype = dtypes::Floating})), ValueError);
  EXPECT_THROW(static_cast<void>(carrier->allocate_like(1, {.dtype = dtypes::Any})), ValueError);
  EXPECT_THROW(static_cast<void>(carrier->allocate_like(-1)), ValueError);
  EXPECT_THROW(static_cast<void>(carrier->allocate_like(std::numeric_limits<Index>::max())), OverflowError);
  EXPECT_THAT(
      code_of([&] { static_cast<void>(carrier->allocate_like(std::numeric_limits<Index>::max() / 4)); }),
      kTooLarge);
  EXPECT_EQ(files(), before);
}

TEST(FileBacked, AnEmptyFactoryResultHasNoFileUntilItIsNeeded) {
  const Ref<FileBacked> prototype = FileBacked::make(dtypes::Float32);
  const std::size_t before = files();
  const Ref<Carrier> grown = prototype->allocate_like(0);
  const Ref<Carrier> looked_at = prototype->new_like({});
  const Ref<Carrier> released = prototype->allocate_like(0);
  EXPECT_EQ(files(), before);
  grown->allocate(3);
  EXPECT_EQ(files(), before + 1);
  auto& file = dynamic_cast<FileBacked&>(*looked_at);
  EXPECT_TRUE(fs::exists(file.path()));
  EXPECT_EQ(files(), before + 2);
  released->release();
  EXPECT_THROW(static_cast<void>(dynamic_cast<FileBacked&>(*released).path()), RuntimeError);
  EXPECT_EQ(files(), before + 2);
}

TEST(FileBacked, ReleaseRemovesTheFileForGood) {
  const Ref<FileBacked> carrier = floats(3);
  const fs::path path = carrier->path();
  carrier->release();
  carrier->release();
  EXPECT_TRUE(carrier->is_released());
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(carrier->path(), path);
  EXPECT_EQ(&carrier->dtype(), &dtypes::Float32);
  EXPECT_THAT(message_of<RuntimeError>([&] { static_cast<void>(carrier->get_value(0)); }),
              HasSubstr("released"));
  EXPECT_THAT(message_of<RuntimeError>([&] { carrier->set_value(0, Scalar(1)); }), HasSubstr("released"));
  EXPECT_THAT(message_of<RuntimeError>([&] { carrier->allocate(1); }), HasSubstr("released"));
  EXPECT_FALSE(fs::exists(path));
}

TEST(FileBacked, ReleaseToleratesAMissingFileAndCanBeRetried) {
  const Ref<FileBacked> carrier = floats(3);
  {
    const ScopedIoCalls scope(script({.fail_at = 1, .fail_errno = EBUSY}));
    EXPECT_EQ(code_of([&] { carrier->release(); }), EBUSY);
  }
  EXPECT_FALSE(carrier->is_released());
  EXPECT_EQ(carrier->get_value(0), Scalar(0.0F));
  fs::remove(carrier->path());
  carrier->release();
  EXPECT_TRUE(carrier->is_released());
}

TEST(FileBacked, DestructionRemovesTheFile) {
  fs::path path;
  {
    const Ref<FileBacked> carrier = floats(3);
    path = carrier->path();
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(FileBacked, OwnedStorageIsGuarded) {
  const Ref<FileBacked> carrier = floats(1);
  const auto token = carrier->claim_ownership();
  EXPECT_FALSE(carrier->is_mutable());
  EXPECT_THAT(message_of<RuntimeError>([&] { carrier->set_value(0, Scalar(1)); }), HasSubstr("not mutable"));
  EXPECT_THAT(message_of<RuntimeError>([&] { carrier->release(); }), HasSubstr("owned"));
  {
    const OwnerAccess access(*carrier, token);
    carrier->set_value(0, Scalar(1));
  }
  EXPECT_EQ(carrier->get_value(0), Scalar(1.0F));
  carrier->relinquish_ownership(token);
}

TEST(FileBacked, ComputesNothingAndDispatchesViews) {
  const Ref<FileBacked> carrier = floats(4);
  for (const std::string_view name :
       {"add", "matmul", "reduce_sum", "exp", "gather", "scatter", "sort", "unknown"})
    EXPECT_THAT(message_of<NotImplementedError>([&] { static_cast<void>(carrier->dispatch_op(name)); }),
                HasSubstr(name));
  for (const std::string_view name :
       {"as_strided", "broadcast_to", "permute", "rearrange", "reshape", "squeeze", "unsqueeze", "view"})
    EXPECT_EQ(carrier->dispatch_op(name)->operation_name(), name);
  EXPECT_TRUE(carrier->operation_capabilities().empty());
  EXPECT_THROW(static_cast<void>(carrier->dlpack_info()), BufferError);
}

TEST(FileBacked, AFileCutShortFromOutsideIsAnError) {
  const Ref<FileBacked> carrier = floats(4);
  fs::resize_file(carrier->path(), 6);
  EXPECT_EQ(carrier->get_value(0), Scalar(0.0F));
  EXPECT_THAT(message_of<RuntimeError>([&] { static_cast<void>(carrier->get_value(1)); }),
              HasSubstr("completed 2 of 4 bytes"));
  EXPECT_THAT(message_of<RuntimeError>([&] { carrier->set_value(2, Scalar(1)); }),
              HasSubstr("completed 0 of 4 bytes"));
  EXPECT_EQ(carrier->version(), 0);
  EXPECT_EQ(fs::file_size(carrier->path()), 6U);
}

TEST(FileBackedFaults, ScalarAccessRepeatsAndContinues) {
  const Ref<FileBacked> carrier = floats(2);
  const auto faults =
      script({.read = {{Kind::kInterrupt}, {Kind::kShort, 3}, {Kind::kPass}, {Kind::kShort, 1}},
              .write = {{Kind::kShort, 2}, {Kind::kInterrupt}, {Kind::kShort, 1}}});
  const ScopedIoCalls scope(faults);
  carrier->store(1, Scalar(0.1F));
  EXPECT_EQ(carrier->at(1), Scalar(0.1F));
  EXPECT_EQ(faults->counts().reads_left, 0);
  EXPECT_EQ(faults->counts().writes_left, 0);
  EXPECT_EQ(carrier->version(), 1);
}

TEST(FileBackedFaults, AFailedScalarWritePutsTheOldBytesBack) {
  const Ref<FileBacked> carrier = floats(2);
  carrier->store(1, Scalar(0.1F));
  for (const std::vector<IoStep>& steps : {std::vector<IoStep>{{Kind::kShort, 2}, {Kind::kFail, 0, EIO}},
                                           {{Kind::kShort, 3}, {Kind::kFail, 0, ENOSPC}}}) {
    const ScopedIoCalls scope(script({.write = steps}));
    EXPECT_NE(code_of([&] { carrier->store(1, Scalar(-2.7F)); }), 0);
    EXPECT_EQ(carrier->version(), 1);
    EXPECT_EQ(carrier->at(1), Scalar(0.1F));
  }
  const ScopedIoCalls scope(script({.write = {{Kind::kShort, 3}, {Kind::kZero}}}));
  EXPECT_THAT(message_of<RuntimeError>([&] { carrier->store(1, Scalar(-2.7F)); }),
              HasSubstr("completed 3 of 4 bytes"));
  EXPECT_EQ(carrier->version(), 1);
  EXPECT_EQ(carrier->at(1), Scalar(0.1F));
}

TEST(FileBackedFaults, TheVersionTellsWhenTheOldBytesAreLost) {
  const Ref<FileBacked> carrier = floats(1);
  const ScopedIoCalls scope(
      script({.write = {{Kind::kShort, 2}, {Kind::kFail, 0, EIO}, {Kind::kFail, 0, EIO}}}));
  EXPECT_EQ(code_of([&] { carrier->store(0, Scalar(1.0F)); }), EIO);
  EXPECT_EQ(carrier->version(), 1);
}

TEST(FileBackedFaults, AFullDiskBeforeTheFirstByteChangesNothing) {
  const Ref<FileBacked> carrier = floats(1);
  carrier->store(0, Scalar(0.1F));
  for (const int code : {ENOSPC, EDQUOT, EFBIG}) {
    const auto faults = script({.write = {{Kind::kFail, 0, code}}});
    const ScopedIoCalls scope(faults);
    EXPECT_EQ(code_of([&] { carrier->store(0, Scalar(1.0F)); }), code);
    EXPECT_EQ(faults->counts().writes, 1);
    EXPECT_EQ(carrier->version(), 1);
    EXPECT_EQ(carrier->at(0), Scalar(0.1F));
  }
  const std::size_t before = files();
  const Ref<FileBacked> empty = FileBacked::make(dtypes::Float32);
  {
    const ScopedIoCalls scope(script({.reserve = {{Kind::kFail, 0, ENOSPC}, {Kind::kFail, 0, ENOSPC}}}));
    EXPECT_EQ(code_of([&] { empty->allocate(1000); }), ENOSPC);
    EXPECT_EQ(code_of([&] { static_cast<void>(empty->allocate_like(1000)); }), ENOSPC);
  }
  EXPECT_EQ(empty->size(), 0);
  EXPECT_EQ(fs::file_size(empty->path()), 0U);
  EXPECT_EQ(files(), before + 1);
}

TEST(FileBackedFaults, ABulkWriteSaysWhetherAnythingCanHaveChanged) {
  const Ref<FileBacked> carrier = floats(2);
  const std::array<float, 2> values{1, 2};
  const auto changed = [&](std::vector<IoStep> steps) {
    const ScopedIoCalls scope(script({.write = std::move(steps)}));
    detail::WriteProgress progress;
    EXPECT_THROW(carrier->write_span(0, 2, values.data(), progress), OSError);
    return progress.may_have_changed;
  };
  EXPECT_FALSE(changed({{Kind::kFail, 0, ENOSPC}}));
  EXPECT_TRUE(changed({{Kind::kFail, 0, EIO}}));
  EXPECT_TRUE(changed({{Kind::kShort, 4}, {Kind::kFail, 0, ENOSPC}}));
}

Tensor flat(const Ref<Carrier>& carrier, Index offset, Index size) {
  return Tensor(carrier, offset, Layout(Shape{size}, Stride{1}));
}

Ref<CPU> numbers(Index size) {
  Ref<CPU> carrier = CPU::make(size);
  for (Index i = 0; i < size; ++i) carrier->set_value(i, Scalar(static_cast<float>(i)));
  return carrier;
}

TEST(FileBackedMoves, TheSpanGoesToTheFileAndBack) {
  const Ref<CPU> source = numbers(10);
  const Ref<FileBacked> file = FileBacked::make(dtypes::Float32);
  const Tensor stored = move(Tensor(source, 2, Layout(Shape{3}, Stride{2})), file);
  EXPECT_TRUE(source->is_released());
  EXPECT_EQ(file->size(), 5);
  EXPECT_EQ(file->version(), 1);
  EXPECT_EQ(floats_in(file->path()), (std::vector<float>{2, 3, 4, 5, 6}));
  const Ref<CPU> memory = CPU::make(8);
  const Tensor loaded = move(Tensor(file, 2, Layout(Shape{2}, Stride{2})), memory);
  EXPECT_FALSE(fs::exists(file->path()));
  EXPECT_EQ(loaded.offset(), 0);
  EXPECT_EQ(memory->get_value(0), Scalar(4.0F));
  EXPECT_EQ(memory->get_value(2), Scalar(6.0F));
  EXPECT_EQ(memory->size(), 8);
}

TEST(FileBackedMoves, AFailedMoveLeavesTheSourceAndAnEmptyDestination) {
  const Ref<CPU> source = numbers(4);
  const Ref<FileBacked> file = FileBacked::make(dtypes::Float32);
  for (const IoScriptOptions& faults :
       {IoScriptOptions{.reserve = {{Kind::kFail, 0, ENOSPC}}},
        IoScriptOptions{.write = {{Kind::kFail, 0, ENOSPC}}},
        IoScriptOptions{.write = {{Kind::kShort, 5}, {Kind::kFail, 0, EIO}}}}) {
    const ScopedIoCalls scope(script(faults));
    EXPECT_NE(code_of([&] { static_cast<void>(move(flat(source, 0, 4), file)); }), 0);
    EXPECT_FALSE(source->is_released() || source->is_owned() || file->is_owned());
    EXPECT_EQ(file->size(), 0);
    EXPECT_EQ(fs::file_size(file->path()), 0U);
  }
  static_cast<void>(move(flat(source, 0, 4), file));
  EXPECT_EQ(floats_in(file->path()), (std::vector<float>{0, 1, 2, 3}));
}

TEST(FileBackedMoves, TheVersionTellsWhetherSlotsInUseMayHaveChanged) {
  const Ref<CPU> source = numbers(4);
  const Ref<FileBacked> file = floats(4);
  const auto version_after = [&](std::vector<IoStep> steps) {
    const ScopedIoCalls scope(script({.write = std::move(steps)}));
    EXPECT_NE(code_of([&] { static_cast<void>(move(flat(source, 0, 4), file)); }), 0);
    return file->version();
  };
  EXPECT_EQ(version_after({{Kind::kFail, 0, ENOSPC}}), 0);
  EXPECT_EQ(version_after({{Kind::kShort, 5}, {Kind::kFail, 0, ENOSPC}}), 1);
  EXPECT_EQ(version_after({{Kind::kFail, 0, EIO}}), 2);
  EXPECT_FALSE(source->is_released());
}

TEST(FileBackedMoves, UnalignedMemoryIsMovedToo) {
  alignas(float) std::array<char, 13> memory{};
  const std::array<float, 3> values{1, 2, 3};
  std::memcpy(memory.data() + 1, values.data(), sizeof values);
  const Ref<CPU> source = CPU::wrap(3, reinterpret_cast<Index>(memory.data() + 1));
  const Ref<FileBacked> file = FileBacked::make(dtypes::Float32);
  static_cast<void>(move(flat(source, 1, 2), file));
  EXPECT_EQ(floats_in(file->path()), (std::vector<float>{2, 3}));
}

TEST(FileBackedMoves, OtherPairsGoElementByElement) {
  const Ref<FileBacked> source = floats(3);
  source->store(1, Scalar(2.5F));
  const Ref<FileBacked> file = FileBacked::make(dtypes::Float32);
  static_cast<void>(move(flat(source, 1, 2), file));
  EXPECT_TRUE(source->is_released());
  EXPECT_EQ(floats_in(file->path()), (std::vector<float>{2.5F, 0}));
  EXPECT_EQ(dispatch_move(carrier_class<CPU>(), carrier_class<FileBacked>()).name,
            "CpuToFileBackedMoveOperation");
  EXPECT_EQ(dispatch_move(carrier_class<FileBacked>(), carrier_class<CPU>()).name,
            "FileBackedToCpuMoveOperation");
}

// Fails the n-th system call of a whole life for n = 1, 2, 3 … until one passes; then everything still works.
TEST(FileBackedFaults, EveryCallMayFail) {
  const std::array values{Scalar(1.0F), Scalar(2.0F), Scalar(3.0F)};
  for (const int code : {EIO, ENOSPC, EMFILE}) {
    int failures = 0;
    for (Index n = 1;; ++n) {
      ASSERT_LT(n, 200);
      const int descriptors = open_descriptors();
      const std::size_t before = files();
      const auto faults = script({.fail_at = n, .fail_errno = code});
      bool clean = true;
      {
        const ScopedIoCalls scope(faults);
        Ref<FileBacked> made;
        Ref<Carrier> copy;
        try {
          made = FileBacked::make(dtypes::Float32);
          made->allocate(3);
          made->set_value(1, Scalar(0.5F));
          EXPECT_EQ(made->get_value(1), Scalar(0.5F));
          copy = made->new_like(values);
          EXPECT_EQ(copy->get_value(2), Scalar(3.0F));
          copy->release();
          made->release();
        } catch (const OSError& error) {
          EXPECT_EQ(error.code(), code);
          clean = false;
          ++failures;
          if (made && !made->is_released() && made->size() == 3) {  // the next calls work
            made->set_value(1, Scalar(2.5F));
            EXPECT_EQ(made->get_value(1), Scalar(2.5F));
            made->release();
          }
        }
      }
      EXPECT_EQ(files(), before) << "call " << n;
      EXPECT_EQ(open_descriptors(), descriptors) << "call " << n;
      if (clean && faults->counts().calls < n) break;
    }
    EXPECT_GE(failures, 12);
  }
}

TEST(FileBackedLimits, TenThousandCarriersLiveUnderAThousandDescriptors) {
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  const rlimit limit{std::min<rlim_t>(1024, old.rlim_max), old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const std::size_t before = files();
  {
    std::vector<Ref<FileBacked>> carriers;
    for (Index i = 0; i < 10'000; ++i) {
      carriers.push_back(floats(1));
      carriers.back()->set_value(0, Scalar(static_cast<float>(i)));
    }
    EXPECT_EQ(files(), before + 10'000);
    EXPECT_LE(detail::open_temporary_files(), 64);
    for (Index i = 0; i < 10'000; i += 37)
      ASSERT_EQ(carriers[static_cast<std::size_t>(i)]->get_value(0), Scalar(static_cast<float>(i)));
  }
  EXPECT_EQ(files(), before);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
}

TEST(FileBackedLimits, TenThousandCyclesKeepDescriptorsFlat) {
  const int descriptors = open_descriptors();
  for (int i = 0; i < 10'000; ++i) {
    const Ref<FileBacked> carrier = FileBacked::make(dtypes::Int32);
    if (i % 2 == 0) carrier->release();
  }
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST(FileBackedThreads, OneCarrierServesManyThreads) {
  const Ref<FileBacked> carrier = floats(4);
  std::vector<std::thread> threads;
  for (Index slot = 0; slot < 4; ++slot)
    threads.emplace_back([&, slot] {
      for (int i = 1; i <= 500; ++i) {
        carrier->set_value(slot, Scalar(static_cast<float>(i)));
        if (carrier->get_value(slot) != Scalar(static_cast<float>(i))) std::abort();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(carrier->version(), 2000);
}

TEST(FileBackedFork, AChildReadsAndDeletesNothing) {
  Ref<FileBacked> kept = floats(1);
  Ref<FileBacked> dropped = floats(1);
  Ref<FileBacked> empty = FileBacked::make(dtypes::Float32);
  Ref<Carrier> unmade = empty->allocate_like(0);
  kept->store(0, Scalar(0.25F));
  const fs::path dropped_path = dropped->path();
  std::fflush(nullptr);  // or the child prints it again
  const pid_t child = fork();
  if (child == 0) {
    const auto refuses = [](const std::function<void()>& call) {
      const std::string what = message_of<RuntimeError>(call);
      return what.find("fork") != std::string::npos;
    };
    bool good = kept->at(0) == Scalar(0.25F) && !kept->is_mutable();
    good = good && refuses([&] { kept->store(0, Scalar(1)); }) &&
           refuses([&] { kept->set_value(0, Scalar(1)); });
    good = good && refuses([&] { empty->allocate(3); }) && refuses([&] { unmade->allocate(3); });
    good = good && refuses([&] { static_cast<void>(dynamic_cast<FileBacked&>(*unmade).path()); });
    kept->release();
    good = good && kept->is_released() && fs::exists(kept->path());
    dropped.reset();
    good = good && fs::exists(dropped_path);
    const Ref<FileBacked> own = floats(1);
    own->store(0, Scalar(1));
    good = good && own->path().parent_path() != dropped_path.parent_path();
    const Ref<Carrier> made = kept->allocate_like(2);
    made->store(0, Scalar(3));
    std::exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(kept->at(0), Scalar(0.25F));
  kept->store(0, Scalar(1));
  EXPECT_TRUE(fs::exists(dropped_path));
  unmade->allocate(1);
}

}  // namespace
}  // namespace orlop::inline v0
