// Metal in C++: arguments, the choice of a runtime, the order in which a runtime is used, and its failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "backends.hpp"
#include "orlop/carriers/evictable/evictable.hpp"
#include "orlop/carriers/metal/metal.hpp"
#include "orlop/operation/autograd.hpp"
#include "orlop/operation/functional.hpp"

namespace orlop {
namespace {

using namespace testing_support;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// The emulator, which writes down what it is asked for and fails at the call that it is told.
class RecordingRuntime final : public MetalRuntime {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return label; }
  [[nodiscard]] std::string device_name() const override { return "a recorder"; }
  [[nodiscard]] std::size_t largest_buffer_bytes() const noexcept override { return largest; }
  [[nodiscard]] std::shared_ptr<MetalBuffer> allocate(std::size_t bytes) override {
    return fails() ? nullptr : emulator_->allocate(bytes);
  }
  [[nodiscard]] std::shared_ptr<const MetalPipeline> pipeline(std::string_view kernel) override {
    if (fails()) raise<RuntimeError>("Metal", "the compiler refuses ", kernel);
    calls.emplace_back(kernel);
    return emulator_->pipeline(kernel);
  }
  [[nodiscard]] std::unique_ptr<MetalCommands> begin() override {
    if (fails()) raise<RuntimeError>("Metal", "the device takes no commands");
    return std::make_unique<Commands>(*this, emulator_->begin());
  }

  std::string_view label = "emulated";
  std::size_t largest = 1 << 20;
  int until_failure = 0;  ///< the failing call, counted from 1; 0 or less for none
  std::vector<std::string> calls;

 private:
  class Commands final : public MetalCommands {
   public:
    Commands(RecordingRuntime& runtime, std::unique_ptr<MetalCommands> commands)
        : runtime_(runtime), commands_(std::move(commands)) {}
    void encode(const MetalPipeline& pipeline, std::span<const MetalBinding> buffers,
                std::span<const std::int64_t> constants, MetalGrid groups) override {
      if (runtime_.fails()) raise<RuntimeError>("Metal", "no room for commands");
      runtime_.calls.emplace_back("encode");
      commands_->encode(pipeline, buffers, constants, groups);
    }
    void commit() override {
      runtime_.calls.emplace_back("commit");
      if (runtime_.fails()) raise<RuntimeError>("Metal", "the queue is gone");
      commands_->commit();
    }
    void wait() override {
      runtime_.calls.emplace_back("wait");
      commands_->wait();
      if (runtime_.fails()) raise<RuntimeError>("Metal", "the device was lost");
    }

   private:
    RecordingRuntime& runtime_;
    std::unique_ptr<MetalCommands> commands_;
  };

  [[nodiscard]] bool fails() { return --until_failure == 0; }

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

TEST_F(MetalTest, TheRuntimeOfAProcessDoesNotChange) {
  use_metal_runtime("emulated");
  runtime_->label = "apple";
  EXPECT_THAT([] { use_metal_runtime("emulated"); },
              ThrowsMessage<RuntimeError>(HasSubstr("this process uses the runtime apple already")));
  EXPECT_EQ(metal_runtime_info()->runtime, "apple");
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

/// Runs `call` with its first, second ... use of the device failing until it passes; `check` after each
/// failure.
template <class Call, class Check>
int fail_each_use(RecordingRuntime& runtime, Call call, Check check) {
  for (int use = 1;; ++use) {
    runtime.until_failure = use;
    try {
      call();
      runtime.until_failure = 0;
      return use - 1;
    } catch (const RuntimeError&) {
    } catch (const MemoryError&) {
    }
    runtime.until_failure = 0;
    check();
  }
}

TEST_F(MetalTest, AFailureOfTheDeviceLeavesEverythingAndTheNextCallWorks) {
  const Tensor x = metal_tensor({1, -2, 3, -4}, row(4));
  const auto check = [&] {
    EXPECT_EQ(x.carrier()->version(), 0);
    EXPECT_THAT(values_of(x), ElementsAre(1, -2, 3, -4));
    EXPECT_THAT(values_of(relu(x)), ElementsAre(1, 0, 3, 0));
  };
  // Of a result, pipeline and encoder, commit, wait; of the begin.
  EXPECT_EQ(fail_each_use(*runtime_, [&] { (void)relu(x); }, check), 6);
  EXPECT_GT(fail_each_use(*runtime_, [&] { (void)sort(x); }, check), 12);
  const Tensor square(x.carrier(), 0, Layout(Shape{2, 2}, Stride{2, 1}));
  EXPECT_GT(fail_each_use(*runtime_, [&] { (void)matmul(square, square); }, check), 6);
}

TEST_F(MetalTest, AFailureLeavesAnOwnedCarrierWithItsOwner) {
  const Ref<Evictable> hierarchy = Evictable::make(metal_tensor({1, -2}, row(2)).carrier(), CPU::make(0));
  const Tensor x(hierarchy, 0, row(2));
  fail_each_use(
      *runtime_, [&] { (void)relu(x); },
      [&] {
        EXPECT_EQ(hierarchy->version(), 0);
        EXPECT_THROW(hierarchy->primary()->release(), RuntimeError);
        hierarchy->evict();
        hierarchy->promote();
        EXPECT_THAT(values_of(relu(x)), ElementsAre(1, 0));
      });
}

TEST_F(MetalTest, AConvolutionAndItsGradientsRunOnTheDeviceInPieces) {
  const Shape shapes[] = {{2, 4, 6, 5}, {4, 2, 3, 2}};
  std::array<std::vector<float>, 2> values;
  for (std::size_t operand = 0; operand < 2; ++operand)
    for (Index i = 0; i < Layout::canonical(shapes[operand]).size(); ++i)
      values[operand].push_back(static_cast<float>(i * (operand == 0 ? 5 : 7) % 9 - 4));
  const Index strides[] = {2, 1};
  const Padding padding[] = {{1, 2}, {0, 1}};
  const auto run = [&](const Carrier& prototype) {
    std::vector<Tensor> operands;
    for (std::size_t operand = 0; operand < 2; ++operand) {
      const std::vector<Scalar> scalars(values[operand].begin(), values[operand].end());
      operands.emplace_back(prototype.new_like(scalars), 0, Layout::canonical(shapes[operand]));
    }
    const Tensor y = conv_general(operands[0], operands[1], strides, padding, {.feature_groups = 2});
    const std::vector<Scalar> ones(static_cast<std::size_t>(y.size()), Scalar(1.0F));
    backward(y, Tensor(prototype.new_like(ones), 0, y.layout()));
    return std::array{elements<float>(y), elements<float>(gradient_of(operands[0])),
                      elements<float>(gradient_of(operands[1]))};
  };
  const auto expected = run(*CPU::make(0));
  for (const std::size_t largest : {std::size_t{1} << 20, std::size_t{1024}}) {
    runtime_->largest = largest;
    runtime_->calls.clear();
    EXPECT_EQ(run(*Metal::make(0)), expected);  // whole numbers: exact
    EXPECT_THAT(runtime_->calls, Contains("conv_general_lhs_gradient").Times(1));
    const auto products = std::ranges::count(runtime_->calls, "matmul_float");
    EXPECT_EQ(products, largest == 1024 ? 8 : 4);
  }
}

TEST_F(MetalTest, TheGradientOfAProductRunsOnTheDevice) {
  const Tensor x = metal_tensor({2, 0, 3, 4, 5, -1}, Layout(Shape{2, 3}, Stride{3, 1}));
  const Ref<Operation> product = x.carrier()->dispatch_op("reduce_prod");
  const Argument argument(x);
  const Tensor y = product->forward({argument});
  EXPECT_THAT(values_of(y), ElementsAre(0, -20));
  backward(y, metal_tensor({1, 2}, y.layout()));
  EXPECT_THAT(elements<float>(gradient_of(x)), ElementsAre(0, -10, 6, -8, 0, 40));
  EXPECT_THAT(runtime_->calls, Contains("scan_products").Times(2));
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
              ThrowsMessage<RuntimeError>(HasSubstr(
                  "[relu_float] thread 1 of threadgroup (0, 0) reaches element 1 of a, which has 1")));
}

}  // namespace
}  // namespace orlop
