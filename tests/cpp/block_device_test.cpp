// Block devices from C++: allocation, slots, moves in both directions and in the background, faults, closing.
#include "orlop/carriers/block_device/block_device.hpp"

#include "backends.hpp"
#include "files.hpp"
#include "orlop/carriers/evictable/evictable.hpp"
#include "orlop/movement/move.hpp"

namespace orlop::inline v0 {
namespace {

using detail::IoScript;
using detail::IoStep;
using testing_support::Backend;
using testing_support::elements;
using testing_support::expect_refusal;
using testing_support::Place;

[[maybe_unused]] const auto* const place =
    testing::AddGlobalTestEnvironment(new Place(std::filesystem::temp_directory_path(), "block-device"));

constexpr std::uint64_t kCapacity = 1 << 16;

Ref<BlockDevice> open_device(const std::shared_ptr<IoScript>& calls) {
  static int count = 0;
  const std::filesystem::path path = Place::root / text("node-", count++);
  std::FILE* made = std::fopen(path.c_str(), "wb");
  EXPECT_NE(made, nullptr);
  std::fclose(made);
  std::filesystem::resize_file(path, kCapacity);
  calls->present_as_device({kCapacity, 512, 4096});
  return BlockDevice::open(path.string(), calls);
}

Tensor line(const Ref<Carrier>& carrier, Index count) {
  return Tensor(carrier, 0, Layout(Shape{count}, Stride{1}));
}

Tensor cpu_line(const std::vector<float>& values) {
  return testing_support::place(Backend::cpu, values,
                                Layout(Shape{static_cast<Index>(values.size())}, Stride{1}));
}

TEST(BlockDevice, ExtentsAreAlignedAndComeBack) {
  const Ref<BlockDevice> device = open_device(testing_support::script({}));
  EXPECT_EQ(device->allocation_alignment(), 4096);
  const Ref<BlockDeviceCarrier> first = device->allocate(1);
  const Ref<BlockDeviceCarrier> second = device->allocate(1025);
  EXPECT_EQ(first->device_offset_bytes(), 0);
  EXPECT_EQ(second->device_offset_bytes(), 4096);
  EXPECT_EQ(second->extent_bytes(), 8192);
  first->release();
  EXPECT_EQ(device->allocate(1024)->device_offset_bytes(), 0);
  expect_refusal<MemoryError>([&] { (void)device->allocate(1 << 20); }, "no room");
  expect_refusal<ValueError>([&] { (void)device->allocate(-1); }, "negative");
  expect_refusal<OverflowError>([&] { (void)device->allocate(Index{1} << 61); }, "64 bits");
  expect_refusal<ValueError>([&] { (void)device->allocate(1, {.dtype = dtypes::Int32}); }, "Int32");
}

TEST(BlockDevice, SlotsAreReadAndWritten) {
  const Ref<BlockDevice> device = open_device(testing_support::script({}));
  const Ref<BlockDeviceCarrier> carrier = device->allocate(2);
  carrier->store(1, Scalar(2.5));
  EXPECT_EQ(carrier->at(1).to_binary32(), 2.5F);
  EXPECT_EQ(carrier->version(), 1);
  expect_refusal<IndexError>([&] { carrier->store(2, Scalar(1.0)); }, "out of range");
  expect_refusal<NotImplementedError>([&] { (void)carrier->dispatch_op("add"); }, "add");
}

TEST(BlockDevice, TensorsMoveInAndOutInTheBackground) {
  const Ref<BlockDevice> device = open_device(testing_support::script({}));
  const AwaitMove in = move_async(cpu_line({1.0F, 2.0F}), device->allocate(2));
  const Tensor inside = in.wait();
  EXPECT_TRUE(in.done());
  EXPECT_TRUE(inside == in.wait());
  EXPECT_EQ(elements<float>(inside), (std::vector<float>{1.0F, 2.0F}));
  EXPECT_EQ(elements<float>(move_async(inside, CPU::make(2)).wait()), (std::vector<float>{1.0F, 2.0F}));
  expect_refusal<NotImplementedError>([&] { (void)move(line(device->allocate(1), 1), device->allocate(1)); },
                                      "block-device carrier pair");
}

TEST(BlockDevice, AFailedTransferFaultsTheDevice) {
  const auto calls = testing_support::script(
      {.write = {IoStep{.kind = IoStep::Kind::kShort, .count = 5}, IoStep{.kind = IoStep::Kind::kZero}}});
  const Ref<BlockDevice> device = open_device(calls);
  const Ref<BlockDeviceCarrier> carrier = device->allocate(2, {.empty = true});
  const Tensor tensor = cpu_line({1.0F, 2.0F});
  expect_refusal<RuntimeError>([&] { (void)move(tensor, carrier); }, "completed 5 of 8 bytes");
  EXPECT_TRUE(device->is_faulted());
  EXPECT_EQ(carrier->version(), 1);
  EXPECT_FALSE(tensor.carrier()->is_released());
  expect_refusal<RuntimeError>([&] { (void)carrier->at(0); }, "faulted");
  expect_refusal<RuntimeError>([&] { (void)device->allocate(1); }, "faulted");
  carrier->release();
}

TEST(BlockDevice, AHierarchySpillsToTheDevice) {
  const Ref<BlockDevice> device = open_device(testing_support::script({}));
  const Tensor tensor = cpu_line({1.0F, 2.0F});
  const Ref<Evictable> hierarchy = Evictable::make(tensor.carrier(), device->allocate(0));
  hierarchy->evict();
  hierarchy->promote();
  EXPECT_EQ(elements<float>(line(hierarchy, 2)), (std::vector<float>{1.0F, 2.0F}));
}

TEST(BlockDevice, ClosesOnceWithoutCarriers) {
  const auto calls = testing_support::script({});
  const Ref<BlockDevice> device = open_device(calls);
  {
    const Ref<BlockDeviceCarrier> carrier = device->allocate(1);
    carrier->release();
    expect_refusal<RuntimeError>([&] { device->close(); }, "Carrier object exists");
  }
  device->close();
  device->close();
  EXPECT_EQ(calls->counts().closes, 1);
  expect_refusal<RuntimeError>([&] { (void)device->allocate(1); }, "closed");
}

TEST(BlockDevice, OtherNodesAreRefused) {
  expect_refusal<ValueError>([] { (void)BlockDevice::open("/dev/null"); }, "block device");
  expect_refusal<ValueError>([] { (void)BlockDevice::open(Place::root.string()); }, "block device");
  EXPECT_EQ(testing_support::code_of([] { (void)BlockDevice::open("/none/such"); }), ENOENT);
}

}  // namespace
}  // namespace orlop::inline v0
