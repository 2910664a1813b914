// Moves from C++: the checks of S403 in their order, what arrives, versions, growth, failures, the registry,
// gradients.
#include <functional>
#include <optional>
#include <type_traits>

#include "backends.hpp"
#include "orlop/carriers/evictable/evictable.hpp"
#include "orlop/carriers/file_backed/file_backed.hpp"
#include "orlop/carriers/generic/generic.hpp"
#include "orlop/carriers/routes.hpp"
#include "orlop/io/io_script.hpp"
#include "orlop/operation/autograd.hpp"
#include "orlop/operation/functional.hpp"
#include "orlop/operation/profiler.hpp"

namespace orlop::inline v0 {
namespace {

using testing_support::Backend;
using testing_support::elements;
using testing_support::expect_refusal;
using testing_support::Slots;

const CarrierClass kCpu = carrier_class<CPU>();
const CarrierClass kFile = carrier_class<FileBacked>();
const CarrierClass kSlots = carrier_class<Slots>();

Tensor line(const Ref<Carrier>& carrier, Index count, Index offset = 0, Index stride = 1) {
  return Tensor(carrier, offset, Layout(Shape{count}, Stride{stride}));
}

Tensor cpu_line(const std::vector<float>& values) {
  return testing_support::place(Backend::cpu, values,
                                Layout(Shape{static_cast<Index>(values.size())}, Stride{1}));
}

void expect_floats(const Tensor& tensor, const std::vector<float>& values) {
  EXPECT_EQ(elements<float>(tensor), values);
}

/// Writes one slot and then fails.
class Broken final : public MoveOperation {
 protected:
  void copy(const Tensor&, Carrier&, const Tensor& output, Index) override {
    expect_writes();
    output.set(0, Scalar(5.0));
    raise<ValueError>("Broken", "cannot go on");
  }
};

/// A registration that goes with its scope.
class Registered {
 public:
  template <class T>
  Registered(CarrierClass source, CarrierClass destination, std::type_identity<T>)
      : source_(source), destination_(destination) {
    register_move_operation(source_, destination_, move_route<T>("of a test"));
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  ~Registered() { unregister_move_operation(source_, destination_); }

 private:
  CarrierClass source_, destination_;
};

TEST(Move, ChecksComeInOrderAndChangeNothing) {
  const Tensor tensor = cpu_line({1.0F, 2.0F, 3.0F});
  const std::int64_t version = tensor.version();
  // Each destination violates its own row and all later ones that it can.
  const Ref<Carrier> refused = Generic::zeros(1, {.is_mutable = false, .dtype = dtypes::Int32});
  expect_refusal<TypeError>([&] { move(tensor, {}); }, "destination must be a Carrier instance");
  expect_refusal<ValueError>([&] { move(tensor, tensor.carrier()); }, "own carrier");
  expect_refusal<RuntimeError>([&] { move(tensor, refused); }, "must be mutable");
  expect_refusal<TypeError>([&] { move(tensor, Generic::zeros(1, {.dtype = dtypes::Int32})); },
                            "dtype must match");
  expect_refusal<ValueError>([&] { move(tensor, CPU::make(2)); }, "too small");
  expect_refusal<ValueError>([&] { move(tensor, CPU::make(0)); }, "too small");
  refused->release();
  expect_refusal<RuntimeError>([&] { move(tensor, refused); }, "destination carrier is released");
  EXPECT_EQ(tensor.version(), version);
  EXPECT_FALSE(tensor.carrier()->is_owned());
  const Carrier::OwnerToken token = tensor.carrier()->claim_ownership();
  expect_refusal<RuntimeError>([&] { move(tensor, {}); }, "cannot be moved directly");
  tensor.carrier()->relinquish_ownership(token);
  expect_floats(tensor, {1.0F, 2.0F, 3.0F});
  tensor.carrier()->release();
  expect_refusal<RuntimeError>([&] { move(tensor, refused); }, "tensor carrier is released");
}

TEST(Move, PinnedClassesAreRequired) {
  const Argument arguments[] = {Argument(line(Generic::zeros(1, {.dtype = dtypes::Float32}), 1)),
                                Argument::of(Ref<Carrier>(FileBacked::make(dtypes::Float32)))};
  expect_refusal<TypeError>([&] { make_ref<CpuToFileBackedMoveOperation>()->forward(arguments); },
                            "requires a CPU source");
  const Argument onto_cpu[] = {Argument(cpu_line({1.0F})), Argument::of(Ref<Carrier>(CPU::make(1)))};
  expect_refusal<TypeError>([&] { make_ref<CpuToFileBackedMoveOperation>()->forward(onto_cpu); },
                            "requires a FileBacked destination");
}

TEST(Move, LayoutAndValuesArriveAndTheSourceIsReleased) {
  const std::function<Ref<Carrier>()> makers[] = {
      [] { return CPU::make(12); },
      [] { return Generic::zeros(12, {.dtype = dtypes::Float32}); },
      [] { return FileBacked::make(dtypes::Float32); },
      [] { return Evictable::make(CPU::make(12), FileBacked::make(dtypes::Float32)); },
      [] { return make_ref<Slots>(12, dtypes::Float32); },
  };
  for (const auto& make : makers) {
    for (const auto& make_destination : makers) {
      const Ref<Carrier> source = make();
      if (source->size() == 0) source->allocate(12);
      for (Index i = 0; i < 12; ++i) source->store(i, Scalar(i));
      const Tensor tensor = line(source, 4, 1, 3);
      const Ref<Carrier> destination = make_destination();
      const std::int64_t before = destination->version();
      const Tensor result = move(tensor, destination);
      EXPECT_EQ(result.carrier(), destination);
      EXPECT_EQ(result.offset(), 0);
      EXPECT_EQ(result.layout(), tensor.layout());
      expect_floats(result, {1.0F, 4.0F, 7.0F, 10.0F});
      EXPECT_TRUE(source->is_released());
      EXPECT_FALSE(destination->is_owned());
      EXPECT_EQ(destination->version(), before + 1);
    }
  }
}

TEST(Move, AnEmptyFileGrowsToTheSpanAndOtherSlotsKeepTheirContents) {
  const Ref<FileBacked> file = FileBacked::make(dtypes::Float32);
  const Tensor in_file = move(line(cpu_line({0.0F, 1.0F, 2.0F, 3.0F}).carrier(), 2, 1), file);
  EXPECT_EQ(file->size(), 2);
  const Ref<Carrier> wide = CPU::make(4);
  wide->store(3, Scalar(9.0));
  expect_floats(line(move(in_file, wide).carrier(), 4), {1.0F, 2.0F, 0.0F, 9.0F});
  // A broadcast needs its span only.
  const Tensor repeated(cpu_line({7.0F}).carrier(), 0, Layout(Shape{5}, Stride{0}));
  expect_floats(move(repeated, CPU::make(1)), {7.0F, 7.0F, 7.0F, 7.0F, 7.0F});
}

TEST(Move, AFailureLeavesTheSourceAndTellsOfWrites) {
  const Tensor tensor = cpu_line({1.0F, 2.0F});
  const Ref<Carrier> destination = make_ref<Slots>(2, dtypes::Float32);
  const Ref<FileBacked> file = FileBacked::make(dtypes::Float32);
  {
    const Registered broken(kCpu, kSlots, std::type_identity<Broken>());
    expect_refusal<ValueError>([&] { move(tensor, destination); }, "cannot go on");
    EXPECT_EQ(destination->version(), 1);
    EXPECT_EQ(destination->at(0).to_binary32(), 5.0F);
  }
  const MoveRoute built_in = unregister_move_operation(kCpu, kFile);
  {
    const Registered broken(kCpu, kFile, std::type_identity<Broken>());
    expect_refusal<ValueError>([&] { move(tensor, file); }, "cannot go on");
  }
  register_move_operation(kCpu, kFile, built_in);
  EXPECT_EQ(file->size(), 0);
  for (const Ref<Carrier>& carrier : {tensor.carrier(), destination, Ref<Carrier>(file)}) {
    EXPECT_FALSE(carrier->is_owned());
    EXPECT_FALSE(carrier->is_released());
  }
  expect_floats(move(move(tensor, destination), file), {1.0F, 2.0F});
}

TEST(Move, TheRegistryIsExact) {
  EXPECT_EQ(dispatch_move(kCpu, kFile).native_class, &typeid(CpuToFileBackedMoveOperation));
  EXPECT_EQ(dispatch_move(kCpu, kSlots).native_class, &typeid(ElementwiseMoveOperation));
  EXPECT_TRUE(has_move_operation(kFile, kCpu));
  EXPECT_FALSE(has_move_operation(kFile, kSlots));
  expect_refusal<KeyError>([] { unregister_move_operation(kFile, kSlots); },
                           "no move operation is registered");
  const Registered broken(kFile, kSlots, std::type_identity<Broken>());
  EXPECT_EQ(dispatch_move(kFile, kSlots).native_class, &typeid(Broken));
  EXPECT_EQ(dispatch_move(kSlots, kFile).native_class, &typeid(ElementwiseMoveOperation));
  expect_refusal<ValueError>([] { register_move_operation(kFile, kSlots, move_route<Broken>("again")); },
                             "already registered");
}

TEST(Move, AGradientComesBackByTheRouteKeptAtTheForwardCall) {
  const Tensor tensor = cpu_line({1.0F, 2.0F});
  const Tensor in_file = move(tensor, FileBacked::make(dtypes::Float32));
  const Tensor back = move(in_file, CPU::make(2));
  const Tensor doubled = mul(back, Scalar(2.0));
  {
    const MoveRoute kept = unregister_move_operation(kFile, kCpu);
    backward(doubled, cpu_line({3.0F, 0.5F}));
    register_move_operation(kFile, kCpu, kept);
  }
  const Tensor gradient = gradient_of(tensor);
  expect_floats(gradient, {6.0F, 1.0F});
  EXPECT_EQ(gradient.carrier_type(), kCpu);
  EXPECT_FALSE(autograd_node(gradient));

  const Tensor moved = move(cpu_line({1.0F, 2.0F}), CPU::make(2));
  const Ref<Operation> node = autograd_node(moved);
  expect_refusal<ValueError>([&] { node->backward(line(CPU::make(1), 2, 0, 0)); }, "injective");
  expect_refusal<ValueError>([&] { node->backward(line(CPU::make(3), 3)); }, "shape");
  {
    const NoGrad without;
    EXPECT_FALSE(autograd_node(move(moved, CPU::make(2))));
  }
}

TEST(Move, AGraphThatSavedTheDestinationNoticesTheWrite) {
  const Tensor kept = cpu_line({1.0F, 1.0F});
  const Tensor product = mul(kept, kept);
  move(cpu_line({3.0F, 4.0F}), kept.carrier());
  expect_refusal<RuntimeError>([&] { backward(product, cpu_line({1.0F, 1.0F})); }, "modified in-place");
}

TEST(Move, AProfilerSeesSubmissionAndCompletion) {
  Profiler profiler;
  {
    const auto scope = profiler.scope();
    move(cpu_line({1.0F}), FileBacked::make(dtypes::Float32));
  }
  const auto events = profiler.events();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].name, "move.submit");
  EXPECT_EQ(events[1].name, "move.complete");
  EXPECT_EQ(events[1].parent_id, events[0].id);
  for (const ProfilerEvent& event : events) {
    EXPECT_TRUE(event.succeeded);
    EXPECT_EQ(event.carrier_type, kCpu);
    EXPECT_EQ(event.implementation_type.name(), "CpuToFileBackedMoveOperation");
  }
}

/// Stops until the test lets it go on.
class Waiting final : public MoveOperation {
 public:
  inline static detail::Gate* gate = nullptr;

 protected:
  void copy(const Tensor&, Carrier&, const Tensor& output, Index) override {
    gate->enter();
    output.set(0, Scalar(5.0));
  }
};

TEST(MoveAsync, APendingMoveOwnsBothCarriers) {
  detail::Gate gate;
  Waiting::gate = &gate;
  const Registered registered(kCpu, kSlots, std::type_identity<Waiting>());
  const Tensor tensor = cpu_line({1.0F});
  const Ref<Carrier> destination = testing_support::allocate(Backend::reference, 1, dtypes::Float32);
  Profiler profiler;
  std::optional<AwaitMove> handle;
  {
    const auto scope = profiler.scope();
    handle = move_async(tensor, destination);
    EXPECT_TRUE(gate.wait_entered(60.0));
  }
  EXPECT_FALSE(handle->done());
  EXPECT_TRUE(tensor.carrier()->is_owned() && destination->is_owned());
  EXPECT_EQ(elements<float>(tensor), std::vector<float>{1.0F});
  expect_refusal<RuntimeError>([&] { (void)move(tensor, CPU::make(1)); }, "cannot be moved directly");
  expect_refusal<RuntimeError>([&] { destination->release(); }, "owned");
  EXPECT_EQ(profiler.events().size(), 1U);

  const AwaitMove copy = *handle;
  gate.open();
  const Tensor result = handle->wait();
  EXPECT_TRUE(copy.done());
  EXPECT_TRUE(copy.wait() == result);
  EXPECT_EQ(elements<float>(result), std::vector<float>{5.0F});
  EXPECT_TRUE(tensor.carrier()->is_released());
  EXPECT_FALSE(destination->is_owned());
  ASSERT_EQ(profiler.events().size(), 2U);
  EXPECT_EQ(profiler.events()[1].name, "move.complete");
  EXPECT_EQ(profiler.events()[1].parent_id, 0);
}

TEST(MoveAsync, AFailureIsTheSameForEveryWaiter) {
  const Registered registered(kCpu, kSlots, std::type_identity<Broken>());
  const Tensor tensor = cpu_line({1.0F});
  const Ref<Carrier> destination = testing_support::allocate(Backend::reference, 1, dtypes::Float32);
  const AwaitMove handle = move_async(tensor, destination);
  for (int i = 0; i < 2; ++i) expect_refusal<ValueError>([&] { (void)handle.wait(); }, "cannot go on");
  EXPECT_EQ(handle.task()->failure(), handle.task()->failure());
  EXPECT_FALSE(tensor.carrier()->is_released() || tensor.carrier()->is_owned() || destination->is_owned());
}

TEST(MoveAsync, ErrorsBeforeSubmissionAreThrownAtOnce) {
  const Tensor tensor = cpu_line({1.0F, 2.0F});
  expect_refusal<ValueError>([&] { (void)move_async(tensor, CPU::make(1)); }, "too small");
  EXPECT_FALSE(tensor.carrier()->is_owned());
}

}  // namespace
}  // namespace orlop::inline v0
