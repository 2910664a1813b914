// Metal in C++: arguments, the choice of a runtime, the order in which a runtime is used, and its failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "orlop/carriers/metal/metal.hpp"
#include "orlop/operation/functional.hpp"

namespace orlop {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// The emulator, which writes down what it is asked for and fails where it is told to.
class RecordingRuntime final : public MetalRuntime {
 public:
  enum class Failure : std::uint8_t { none, allocate, pipeline, commit, wait };

  [[nodiscard]] std::string_view name() const noexcept override { return "emulated"; }
  [[nodiscard]] std::string device_name() const override { return "a recorder"; }
  [[nodiscard]] std::size_t largest_buffer_bytes() const noexcept override { return largest; }
  [[nodiscard]] std::shared_ptr<MetalBuffer> allocate(std::size_t bytes) override {
    return failure == Failure::allocate ? nullptr : emulator_->allocate(bytes);
  }
  [[nodiscard]] std::shared_ptr<const MetalPipeline> pipeline(std::string_view kernel) override {
    if (failure == Failure::pipeline) raise<RuntimeError>("Metal", "the compiler refuses ", kernel);
    calls.emplace_back(kernel);
    return emulator_->pipeline(kernel);
  }
  [[nodiscard]] std::unique_ptr<MetalCommands> begin() override {
    return std::make_unique<Commands>(*this, emulator_->begin());
  }

  std::size_t largest = 1 << 20;
  Failure failure = Failure::none;
  std::vector<std::string> calls;

 private:
  class Commands final : public MetalCommands {
   public:
    Commands(RecordingRuntime& runtime, std::unique_ptr<MetalCommands> commands)
        : runtime_(runtime), commands_(std::move(commands)) {}
    void encode(const MetalPipeline& pipeline, std::span<const MetalBinding> buffers,
                std::span<const std::int64_t> constants, MetalGrid groups) override {
      runtime_.calls.emplace_back("encode");
      commands_->encode(pipeline, buffers, constants, groups);
    }
    void commit() override {
      runtime_.calls.emplace_back("commit");
      if (runtime_.failure == Failure::commit) raise<RuntimeError>("Metal", "the queue is gone");
      commands_->commit();
    }
    void wait() override {
      runtime_.calls.emplace_back("wait");
      commands_->wait();
      if (runtime_.failure == Failure::wait) raise<RuntimeError>("Metal", "the device was lost");
    }

   private:
    RecordingRuntime& runtime_;
    std::unique_ptr<MetalCommands> commands_;
  };

  std::shared_ptr<MetalRuntime> emulator_ = detail::emulated_metal_runtime();
};

class MetalTest : public testing::Test {
 protected:
  ~MetalTest() override { detail::replace_metal_runtime(former_); }

  std::shared_ptr<RecordingRuntime> runtime_ = std::make_shared<RecordingRuntime>();
  std::shared_ptr<MetalRuntime> former_ = detail::replace_metal_runtime(runtime_);
};

Tensor metal_tensor(std::initializer_list<float> values, const Layout& layout) {
  const std::vector<Scalar> scalars(values.begin(), values.end());
  return Tensor(Metal::make(0)->new_like(scalars), 0, layout);
}

Layout row(Index count) { return Layout(Shape(Coordinate(count)), Stride(Coordinate(Index{1}))); }

std::vector<float> values_of(const Tensor& tensor) {
  std::vector<float> values;
  for (Index i = 0; i < tensor.carrier()->size(); ++i)
    values.push_back(tensor.carrier()->at(i).to_binary32());
  return values;
}

TEST(Metal, ChecksItsArgumentsBeforeItsRuntime) {
  static_assert(std::is_final_v<Metal>);
  EXPECT_THAT([] { (void)Metal::make(-1); }, ThrowsMessage<ValueError>(HasSubstr("negative")));
  EXPECT_THAT([] { (void)Metal::make(1, {.dtype = dtypes::Float64}); },
              ThrowsMessage<ValueError>(HasSubstr("Float64")));
}

TEST(Metal, SaysWhatItNeeds) {
  const std::shared_ptr<MetalRuntime> former = detail::replace_metal_runtime(nullptr);
  for (const Index size : {0, 3})
    EXPECT_THAT([&] { (void)Metal::make(size, {.is_mutable = false, .dtype = dtypes::Bool, .empty = true}); },
                ThrowsMessage<RuntimeError>(HasSubstr("Apple silicon")));
  detail::replace_metal_runtime(former);
}

TEST_F(MetalTest, AnOperationEncodesCommitsAndWaitsBeforeItReturns) {
  const Tensor x = metal_tensor({1, -2, 3, -4}, row(4));
  EXPECT_THAT(values_of(relu(x)), ElementsAre(1, 0, 3, 0));
  EXPECT_THAT(runtime_->calls, ElementsAre("relu_float", "encode", "commit", "wait"));
}

TEST_F(MetalTest, AStridedOperandIsCopiedInTheSameCommands) {
  const Tensor x =
      metal_tensor({1, -2, 3, -4}, Layout(Shape(Coordinate(Index{2})), Stride(Coordinate(Index{2}))));
  EXPECT_THAT(values_of(relu(x)), ElementsAre(1, 3));
  EXPECT_THAT(runtime_->calls, ElementsAre("copy_int", "encode", "relu_float", "encode", "commit", "wait"));
}

TEST_F(MetalTest, AFailureOfTheDeviceLeavesEverythingAndTheNextCallWorks) {
  const Tensor x = metal_tensor({1, -2, 3, -4}, row(4));
  using Failure = RecordingRuntime::Failure;
  for (const Failure failure : {Failure::pipeline, Failure::commit, Failure::wait}) {
    runtime_->failure = failure;
    EXPECT_THROW((void)relu(x), RuntimeError);
    runtime_->failure = Failure::none;
    EXPECT_EQ(x.carrier()->version(), 0);
    EXPECT_THAT(values_of(x), ElementsAre(1, -2, 3, -4));
    EXPECT_THAT(values_of(relu(x)), ElementsAre(1, 0, 3, 0));
  }
  runtime_->failure = Failure::allocate;
  EXPECT_THROW((void)relu(x), MemoryError);
  runtime_->failure = Failure::none;
  EXPECT_THAT(values_of(relu(x)), ElementsAre(1, 0, 3, 0));
}

TEST_F(MetalTest, TheDevicesLimitIsAMemoryErrorWithTheNumbers) {
  EXPECT_THAT([] { (void)Metal::make(1 << 19); }, ThrowsMessage<MemoryError>(HasSubstr("2097152 bytes")));
  EXPECT_THAT([] { (void)Metal::make(1 << 19); }, ThrowsMessage<MemoryError>(HasSubstr("1048576 at most")));
}

TEST_F(MetalTest, TheEmulatorReportsAnAccessOutsideABufferByNames) {
  const std::shared_ptr<MetalBuffer> small = runtime_->allocate(4);
  const std::unique_ptr<MetalCommands> commands = runtime_->begin();
  const std::vector<MetalBinding> bindings{{small, 0}, {small, 0}};
  commands->encode(*runtime_->pipeline("relu_float"), bindings, std::vector<std::int64_t>{2, 1}, {1, 1});
  commands->commit();
  EXPECT_THAT([&] { commands->wait(); },
              ThrowsMessage<RuntimeError>(HasSubstr("[relu_float] the kernel reaches element 1 of")));
}

}  // namespace
}  // namespace orlop
