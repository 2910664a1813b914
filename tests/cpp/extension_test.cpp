// Carrier definitions from C++: storage through a provider, facets, routes, observation (X6-X20, X130-X132).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "orlop/carriers/cpu/cpu.hpp"
#include "orlop/extension/defined_carrier.hpp"
#include "orlop/extension/definition.hpp"
#include "orlop/movement/move.hpp"
#include "orlop/operation/capability.hpp"
#include "orlop/operation/grad_mode.hpp"
#include "orlop/storage/normalize.hpp"

namespace orlop {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const DType& F = dtypes::Float32;
const DType& I = dtypes::Int32;

/// Values in a vector. The number makes a class of its own for every test.
template <int Number>
class Crate final : public DefinedCarrier {
 public:
  std::vector<Scalar> values;
  [[nodiscard]] static CarrierClass kind() { return orlop::carrier_class<Crate>(); }
  [[nodiscard]] static Ref<Crate> make(Index slots, bool is_mutable = true) {
    return make_defined<Crate>(slots, {.dtype = F, .is_mutable = is_mutable});
  }

 protected:
  [[nodiscard]] Ref<Carrier> make_blank() const override { return make_ref<Crate>(); }
};

template <int Number>
std::vector<Scalar>& values_of(const Carrier& carrier) {
  return const_cast<Crate<Number>&>(static_cast<const Crate<Number>&>(carrier)).values;
}

template <int Number>
StorageFunctions functions() {
  return {.supports_dtype = [](const Carrier&, const DType& dtype) { return &dtype == &F || &dtype == &I; },
          .physical_size =
              [](const Carrier& carrier) { return static_cast<Index>(values_of<Number>(carrier).size()); },
          .allocate =
              [](Carrier& carrier, Index slots) {
                values_of<Number>(carrier).assign(static_cast<std::size_t>(slots), Scalar(9.0F));
              },
          .release = [](Carrier& carrier) { values_of<Number>(carrier).clear(); },
          .read = [](const Carrier& carrier,
                     Index index) { return values_of<Number>(carrier)[static_cast<std::size_t>(index)]; },
          .write =
              [](Carrier& carrier, Index index, const Scalar& value) {
                values_of<Number>(carrier)[static_cast<std::size_t>(index)] = value;
              },
          .elementwise_fallback = true};
}

template <int Number>
void define(std::vector<TransferRoute> transfers = {}, StorageFunctions storage = functions<Number>()) {
  register_carrier_definition(Crate<Number>::kind(), {.storage = make_storage(std::move(storage)),
                                                      .transfers = std::move(transfers)});
}

Tensor whole(const Ref<Carrier>& carrier) {
  return Tensor(carrier, 0, Layout(Shape{carrier->size()}, Stride{1}));
}

std::vector<float> floats(const Carrier& carrier) {
  std::vector<float> slots(static_cast<std::size_t>(carrier.size()));
  carrier.read_span(0, carrier.size(), slots.data());
  return slots;
}

TEST(DefinedCarrier, KeepsItsSlotsThroughTheProvider) {
  define<1>();
  const auto carrier = Crate<1>::make(2);
  EXPECT_EQ(carrier->size(), 2);
  carrier->store(0, Scalar(0.1));
  carrier->set_value(1, Scalar(7));
  EXPECT_EQ(carrier->version(), 2);
  EXPECT_THAT(floats(*carrier), ElementsAre(0.1F, 7.0F));
  EXPECT_THROW(static_cast<void>(carrier->get_value(2)), IndexError);
  const Ref<Carrier> fresh = carrier->allocate_like(2);
  EXPECT_THAT(floats(*fresh), ElementsAre(0.0F, 0.0F));
  EXPECT_EQ(fresh->version(), 0);
  const std::vector<Scalar> given{Scalar(1), Scalar(2.5)};
  EXPECT_THAT(floats(*carrier->new_like(given, {.is_mutable = false})), ElementsAre(1.0F, 2.5F));
  carrier->release();
  EXPECT_EQ(carrier->size(), 0);
  EXPECT_TRUE(carrier->supports_storage_dtype(I));
}

TEST(DefinedCarrier, RefusesWhatItsProviderDoesNotSupport) {
  int allocated = 0;
  StorageFunctions counting = functions<2>();
  counting.allocate = [&, allocate = counting.allocate](Carrier& carrier, Index slots) {
    ++allocated;
    allocate(carrier, slots);
  };
  counting.supports_dtype = [](const Carrier&, const DType& dtype) { return &dtype == &I; };
  define<2>({}, counting);
  EXPECT_THAT([] { static_cast<void>(Crate<2>::make(2)); },
              ThrowsMessage<ValueError>(HasSubstr("does not support storage dtype Float32")));
  EXPECT_EQ(allocated, 0);
  EXPECT_THROW(static_cast<void>(make_defined<Crate<2>>(-1, {.dtype = I})), ValueError);
  EXPECT_THROW(static_cast<void>(make_defined<Crate<2>>(1, {})), TypeError);
  const auto integers = make_defined<Crate<2>>(1, {.dtype = I});
  EXPECT_THROW(static_cast<void>(integers->allocate_like(1, {.dtype = F})), UnsupportedStorageDTypeError);
  EXPECT_EQ(allocated, 1);
}

TEST(DefinedCarrier, NeedsADefinitionAndIsConstructedOnce) {
  EXPECT_THAT([] { static_cast<void>(Crate<3>::make(1)); },
              ThrowsMessage<TypeError>(HasSubstr("definition-free Carrier construction")));
  EXPECT_THAT([] { define<3>(); }, ThrowsMessage<TypeError>(HasSubstr("already observed")));
  define<4>();
  const auto bare = make_ref<Crate<4>>();
  EXPECT_THROW(static_cast<void>(bare->size()), RuntimeError);
  EXPECT_THROW(static_cast<void>(bare->dtype()), RuntimeError);
  const auto carrier = Crate<4>::make(1);
  EXPECT_THROW(carrier->construct(1, {.dtype = F}), RuntimeError);
}

TEST(DefinedCarrier, GivesUpStorageOfAnotherSize) {
  int released = 0;
  StorageFunctions wrong = functions<5>();
  wrong.physical_size = [](const Carrier&) { return Index{7}; };
  wrong.release = [&](Carrier&) { ++released; };
  define<5>({}, wrong);
  EXPECT_THAT([] { static_cast<void>(Crate<5>::make(3)); },
              ThrowsMessage<ValueError>(HasSubstr("requested physical size 3")));
  EXPECT_EQ(released, 1);
}

TEST(CarrierDefinition, RefusesWhatItCannotBe) {
  EXPECT_THROW(register_carrier_definition(Crate<6>::kind(), {}), TypeError);
  EXPECT_THROW(static_cast<void>(make_storage({})), TypeError);
  const auto storage = make_storage(functions<6>());
  EXPECT_THAT([&] { register_carrier_definition(carrier_class<CPU>(), {.storage = storage}); },
              ThrowsMessage<TypeError>(HasSubstr("definition-free shipped carrier")));
  const auto declines = make_transfer([](const TransferRequest&) { return Unsupported("never"); });
  const TransferRoute route{Crate<6>::kind(), carrier_class<CPU>(), "out", declines};
  EXPECT_THAT(
      [&] { register_carrier_definition(Crate<7>::kind(), {.storage = storage, .transfers = {route}}); },
      ThrowsMessage<TypeError>(HasSubstr("exact source_class")));
  EXPECT_THAT(
      [&] {
        register_carrier_definition(Crate<6>::kind(), {.storage = storage, .transfers = {route, route}});
      },
      ThrowsMessage<ValueError>(HasSubstr("duplicate exact transfer routes")));
  EXPECT_THROW(
      register_carrier_definition(
          Crate<6>::kind(), {.storage = storage, .transfers = {{Crate<6>::kind(), {}, "out", declines}}}),
      TypeError);
  EXPECT_THROW(static_cast<void>(Unsupported("")), ValueError);
  EXPECT_THROW(static_cast<void>(PreparedTransfer(nullptr)), TypeError);
  EXPECT_THROW(static_cast<void>(make_transfer(nullptr)), TypeError);
  register_carrier_definition(Crate<6>::kind(), {.storage = storage, .transfers = {route}});
  EXPECT_THAT([&] { define<6>(); }, ThrowsMessage<TypeError>(HasSubstr("already has a CarrierDefinition")));
}

class Lid final : public CarrierFacet {
 public:
  int colour = 3;
};
class Label final : public CarrierFacet {};

TEST(CarrierFacet, IsFoundByItsExactType) {
  const auto lid = std::make_shared<Lid>();
  EXPECT_THAT(
      [&] {
        register_carrier_definition(Crate<8>::kind(),
                                    {.storage = make_storage(functions<8>()), .facets = {lid, lid}});
      },
      ThrowsMessage<ValueError>(HasSubstr("duplicate exact facet types")));
  register_carrier_definition(Crate<8>::kind(), {.storage = make_storage(functions<8>()), .facets = {lid}});
  const auto carrier = Crate<8>::make(1);
  EXPECT_EQ(carrier->facet<Lid>(), lid.get());
  EXPECT_EQ(carrier->require_facet<Lid>().colour, 3);
  EXPECT_EQ(carrier->facet<Label>(), nullptr);
  EXPECT_EQ(CPU::make(1)->facet<Lid>(), nullptr);
  EXPECT_THAT([&] { static_cast<void>(carrier->require_facet<Label>()); },
              ThrowsMessage<NotImplementedError>(HasSubstr("Label")));
}

TEST(CarrierDefinition, IsFrozenByTheFirstUse) {
  EXPECT_TRUE(capabilities_for_carrier_class(Crate<9>::kind()).empty());
  EXPECT_THAT([] { define<9>(); }, ThrowsMessage<TypeError>(HasSubstr("already observed")));
  static_cast<void>(dispatch_move(Crate<10>::kind(), carrier_class<CPU>()));
  EXPECT_THAT([] { define<10>(); }, ThrowsMessage<TypeError>(HasSubstr("already observed")));
  define<11>();
  EXPECT_THAT([] { register_operation_capabilities(Crate<11>::kind(), std::vector<CapabilitySet::Entry>()); },
              ThrowsMessage<TypeError>(HasSubstr("CarrierDefinition")));
  EXPECT_THAT([] { static_cast<void>(dispatch_move(Crate<11>::kind(), carrier_class<CPU>())); },
              ThrowsMessage<RuntimeError>(HasSubstr("TransferRoute")));
}

TEST(TransferRoute, MovesThroughItsProvider) {
  std::vector<Index> spans;
  const auto unpack = make_transfer([&](const TransferRequest& request) -> Result<PreparedTransfer> {
    if (request.physical_span == 1) return Unsupported("too small");
    EXPECT_TRUE(request.destination->is_owned());
    return PreparedTransfer([&spans, request]() -> std::shared_ptr<ProviderCompletion<void>> {
      spans.push_back(request.physical_span);
      for (Index slot = 0; slot < request.physical_span; ++slot)
        request.destination->store(slot, request.tensor.carrier()->at(request.tensor.offset() + slot));
      return nullptr;
    });
  });
  define<12>({{Crate<12>::kind(), carrier_class<CPU>(), "unpack", unpack}});
  const NoGrad no_grad;  // nothing leads from a CPU back into a defined class
  const Ref<Carrier> source = Crate<12>::make(2);
  const Ref<Carrier> destination = CPU::make(3);
  const Tensor moved = move(whole(source), destination);
  EXPECT_EQ(moved.carrier(), destination);
  EXPECT_THAT(floats(*destination), ElementsAre(9.0F, 9.0F, 0.0F));
  EXPECT_TRUE(source->is_released());
  EXPECT_THAT(spans, ElementsAre(2));
  const Ref<Carrier> small = Crate<12>::make(1);
  EXPECT_THAT([&] { static_cast<void>(move(whole(small), CPU::make(1))); },
              ThrowsMessage<NotImplementedError>(HasSubstr("too small")));
  EXPECT_FALSE(small->is_owned());
  EXPECT_THAT([&] { static_cast<void>(move(whole(CPU::make(1)), small)); },
              ThrowsMessage<NotImplementedError>(HasSubstr("(CPU, Crate<12>)")));
}

TEST(TransferRoute, CopiesElementwiseWhereBothProvidersAllowIt) {
  define<13>();
  StorageFunctions strict = functions<14>();
  strict.elementwise_fallback = false;
  define<14>({}, strict);
  const Ref<Carrier> source = Crate<13>::make(2);
  const Ref<Carrier> empty = Crate<13>::make(0);
  EXPECT_THAT(floats(*move(whole(source), empty).carrier()), ElementsAre(9.0F, 9.0F));
  EXPECT_EQ(empty->version(), 1);
  EXPECT_THROW(static_cast<void>(move(whole(empty), Crate<14>::make(2))), NotImplementedError);
  EXPECT_FALSE(empty->is_released());
}

/// Work that ends when the test says so.
class HeldTransfer final : public ProviderCompletion<void> {
 public:
  explicit HeldTransfer(std::shared_future<void> end) : end_(std::move(end)) {}
  [[nodiscard]] bool done() const override {
    return end_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  void wait() override { end_.get(); }

 private:
  std::shared_future<void> end_;
};

template <int Number>
void define_held(const std::shared_future<void>& end) {
  define<Number>({{Crate<Number>::kind(), carrier_class<CPU>(), "held",
                   make_transfer([end](const TransferRequest&) -> Result<PreparedTransfer> {
                     return PreparedTransfer([end] { return std::make_shared<HeldTransfer>(end); });
                   })}});
}

TEST(TransferRoute, AMoveIsPendingUntilItsCompletionEnds) {
  const NoGrad no_grad;
  std::promise<void> end;
  define_held<16>(end.get_future().share());
  const Ref<Carrier> source = Crate<16>::make(2);
  const Ref<Carrier> destination = CPU::make(2);
  const AwaitMove handle = move_async(whole(source), destination);
  EXPECT_FALSE(handle.done());
  EXPECT_TRUE(source->is_owned());
  EXPECT_THROW(source->release(), RuntimeError);
  end.set_value();
  EXPECT_EQ(handle.wait().carrier(), destination);
  EXPECT_TRUE(source->is_released());
  EXPECT_FALSE(destination->is_owned());
  EXPECT_EQ(destination->version(), 1);
}

TEST(TransferRoute, AFailingCompletionLeavesTheSource) {
  const NoGrad no_grad;
  std::promise<void> end;
  define_held<17>(end.get_future().share());
  const Ref<Carrier> source = Crate<17>::make(2);
  const AwaitMove handle = move_async(whole(source), CPU::make(2));
  end.set_exception(std::make_exception_ptr(OverflowError("held")));
  for (int i = 0; i < 2; ++i) EXPECT_THROW(static_cast<void>(handle.wait()), OverflowError);
  EXPECT_FALSE(source->is_released());
  EXPECT_FALSE(source->is_owned());
}

TEST(CarrierDefinition, AndDeclaredCapabilitiesHaveOneWinner) {
  const auto storage = make_storage(functions<15>());
  for (int round = 0; round < 50; ++round) {
    const CarrierClass raced = detail::python_carrier_class(nullptr, "Raced", false);
    std::atomic<int> winners{0};
    const auto attempt = [&](const auto& call) {
      try {
        call();
        ++winners;
      } catch (const TypeError&) {
      }
    };
    std::thread defining([&] { attempt([&] { register_carrier_definition(raced, {.storage = storage}); }); });
    std::thread declaring([&] {
      attempt([&] { register_operation_capabilities(raced, std::vector<CapabilitySet::Entry>()); });
    });
    defining.join();
    declaring.join();
    EXPECT_EQ(winners, 1);
  }
}

// --- Kernels and packs ------------------------------------------------------------------------------------

OperationCapability add_plan(const DType& dtype) {
  const std::array<PlanOperand, 2> operands{PlanOperand(dtype), PlanOperand(dtype)};
  return OperationCapability::from_plan(resolve_operation_plan("add", operands));
}

std::shared_ptr<const KernelExecutionInterface> host() {
  return std::make_shared<KernelExecutionInterface>("1");
}

/// What the reference does.
Result<PreparedKernel> run(const ResolvedInvocation& invocation, const KernelExecutionInterface&) {
  return PreparedKernel(host(), [invocation] { return ProviderResult(execute_reference(invocation)); });
}

KernelPattern pattern(std::string kernel_id, std::shared_ptr<const Kernel> kernel,
                      std::int64_t preference = 0) {
  return {&operation_definition("add"), {add_plan(F)}, std::move(kernel_id), std::move(kernel), preference};
}

std::shared_ptr<const Kernel> declining(std::vector<std::string>& log, std::string reason) {
  return make_kernel(
      [&log, reason = std::move(reason)](const ResolvedInvocation&,
                                         const KernelExecutionInterface&) -> Result<PreparedKernel> {
        log.push_back(reason);
        return Unsupported(reason);
      });
}

template <int Number>
void define_kernels(std::vector<KernelPattern> patterns) {
  register_carrier_definition(
      Crate<Number>::kind(),
      {.storage = make_storage(functions<Number>()), .kernels = KernelProvider{host(), std::move(patterns)}});
}

template <int Number>
KernelPack pack(std::string name_space, KernelPattern added) {
  return {std::move(name_space), "1", Crate<Number>::kind(), host(), {std::move(added)}};
}

template <int Number>
Ref<Carrier> filled(std::initializer_list<float> values) {
  const auto carrier = Crate<Number>::make(0);
  return carrier->new_like(std::vector<Scalar>(values.begin(), values.end()));
}

template <int Number>
std::vector<float> total() {
  const Tensor left = whole(filled<Number>({1.0F, 2.0F}));
  const std::array<Argument, 2> operands{Argument(left), Argument(whole(filled<Number>({3.0F, 4.0F})))};
  return floats(*left.carrier()->dispatch_op("add")->forward(operands).carrier());
}

TEST(KernelPack, KernelsAreTriedByPreferenceThenByNamespace) {
  std::vector<std::string> log;
  define_kernels<20>(
      {pattern("own", declining(log, "own")), pattern("wanted", declining(log, "wanted"), 10)});
  register_kernel_pack(pack<20>("zeta", pattern("z", declining(log, "zeta"))));
  register_kernel_pack(pack<20>("alpha", pattern("a", declining(log, "alpha"))));
  register_kernel_pack(pack<20>("beta", pattern("runs", make_kernel(run), -1)));
  EXPECT_THAT(total<20>(), ElementsAre(4.0F, 6.0F));
  EXPECT_THAT(log, ElementsAre("wanted", "own", "alpha", "zeta"));
}

TEST(KernelPack, AllReasonsAreTold) {
  std::vector<std::string> log;
  define_kernels<21>(
      {pattern("first", declining(log, "alignment")), pattern("second", declining(log, "shape"))});
  EXPECT_THAT([] { static_cast<void>(total<21>()); },
              ThrowsMessage<UnsupportedOperationPlan>(HasSubstr("first: alignment; second: shape")));
}

TEST(KernelPack, IsJudgedAgainstItsClass) {
  define_kernels<22>({pattern("own", make_kernel(run))});
  define<23>();
  const auto kernel = make_kernel(run);
  EXPECT_THAT(
      [&] { register_kernel_pack({"acme", "1", carrier_class<CPU>(), host(), {pattern("a", kernel)}}); },
      ThrowsMessage<TypeError>(HasSubstr("exact CarrierDefinition")));
  EXPECT_THAT([&] { register_kernel_pack(pack<23>("acme", pattern("a", kernel))); },
              ThrowsMessage<TypeError>(HasSubstr("storage-only")));
  KernelPack other = pack<22>("acme", pattern("a", kernel));
  other.execution_interface = std::make_shared<KernelExecutionInterface>("2");
  EXPECT_THAT([&] { register_kernel_pack(other); }, ThrowsMessage<TypeError>(HasSubstr("does not match")));
  EXPECT_THAT([&] { register_kernel_pack(pack<22>("acme", pattern("own", kernel))); },
              ThrowsMessage<ValueError>(HasSubstr("kernel_id")));
  register_kernel_pack(pack<22>("acme", pattern("a", kernel)));
  EXPECT_THAT([&] { register_kernel_pack(pack<22>("acme", pattern("b", kernel))); },
              ThrowsMessage<ValueError>(HasSubstr("namespace and version")));
  static_cast<void>(Crate<22>::make(1));
  EXPECT_THAT([&] { register_kernel_pack(pack<22>("late", pattern("b", kernel))); },
              ThrowsMessage<TypeError>(HasSubstr("already observed")));
  EXPECT_EQ(capabilities_for_carrier_class(Crate<22>::kind()).size(), 1U);
}

TEST(KernelPack, RecordsCheckTheirFields) {
  const auto kernel = make_kernel(run);
  const auto expect = [](const KernelPattern& bad, std::string_view words) {
    EXPECT_THAT([&] { bad.validate(); }, ThrowsMessage<Error>(HasSubstr(std::string(words))));
  };
  expect({nullptr, {add_plan(F)}, "a", kernel}, "operation");
  const auto& add = operation_definition("add");
  expect({&add, {}, "a", kernel}, "plans");
  expect({&add, {add_plan(F), add_plan(F)}, "a", kernel}, "duplicate");
  expect({&operation_definition("relu"), {add_plan(F)}, "a", kernel}, "operation.name");
  expect({&add, {add_plan(F)}, "", kernel}, "kernel_id");
  expect({&add, {add_plan(F)}, "a", nullptr}, "prepare");
  EXPECT_THROW((KernelProvider{nullptr}.validate()), TypeError);
  EXPECT_THROW((KernelProvider{host(), {pattern("a", kernel), pattern("a", kernel)}}.validate()), ValueError);
  EXPECT_THROW(KernelPack{}.validate(), ValueError);
  EXPECT_THROW(static_cast<void>(ProviderResult({})), ValueError);
  EXPECT_THROW(static_cast<void>(ProviderResult({Tensor()})), TypeError);
  EXPECT_THROW(static_cast<void>(PreparedKernel(host(), nullptr)), TypeError);
  EXPECT_THROW(static_cast<void>(make_kernel(nullptr)), TypeError);
  EXPECT_THROW(static_cast<void>(KernelExecutionInterface("")), ValueError);
}

class Device final : public KernelExecutionInterface {
 public:
  using KernelExecutionInterface::KernelExecutionInterface;
};

TEST(KernelExecutionInterface, IsCompatibleByTypeAndVersion) {
  EXPECT_TRUE(host()->is_compatible_with(*host()));
  EXPECT_FALSE(host()->is_compatible_with(Device("1")));
  EXPECT_FALSE(host()->is_compatible_with(KernelExecutionInterface("2")));
  define_kernels<24>(
      {pattern("own", make_kernel([](const ResolvedInvocation& invocation, const KernelExecutionInterface&) {
                 return Result<PreparedKernel>(PreparedKernel(std::make_shared<Device>("1"), [invocation] {
                   return ProviderResult(execute_reference(invocation));
                 }));
               }))});
  EXPECT_THAT([] { static_cast<void>(total<24>()); }, ThrowsMessage<TypeError>(HasSubstr("interface")));
}

/// Ends when it is waited for.
class Later final : public ProviderCompletion<ProviderResult> {
 public:
  Later(ResolvedInvocation invocation, bool ends) : invocation_(std::move(invocation)), ends_(ends) {}
  [[nodiscard]] bool done() const override { return done_; }
  ProviderResult wait() override {
    done_ = ends_;
    return ProviderResult(execute_reference(invocation_));
  }

 private:
  ResolvedInvocation invocation_;
  bool ends_;
  bool done_ = false;
};

template <int Number>
void define_later(bool ends) {
  define_kernels<Number>({pattern(
      "later", make_kernel([ends](const ResolvedInvocation& invocation, const KernelExecutionInterface&) {
        return Result<PreparedKernel>(PreparedKernel(host(), [invocation, ends]() -> ProviderSubmission {
          return std::make_shared<Later>(invocation, ends);
        }));
      }))});
}

TEST(ProviderCompletion, IsWaitedForByTheCall) {
  define_later<25>(true);
  EXPECT_THAT(total<25>(), ElementsAre(4.0F, 6.0F));
  define_later<26>(false);
  EXPECT_THAT([] { static_cast<void>(total<26>()); }, ThrowsMessage<TypeError>(HasSubstr("done")));
}

TEST(KernelPack, AWriteThatIsNotDeclaredIsTakenBack) {
  define_kernels<27>({pattern(
      "writes", make_kernel([](const ResolvedInvocation& invocation, const KernelExecutionInterface&) {
        return Result<PreparedKernel>(PreparedKernel(host(), [invocation]() -> ProviderSubmission {
          invocation.tensor(0)->carrier()->store(0, Scalar(9.0F));
          return ProviderResult(execute_reference(invocation));
        }));
      }))});
  const Tensor left = whole(filled<27>({1.0F, 2.0F}));
  const std::array<Argument, 2> operands{Argument(left), Argument(whole(filled<27>({3.0F, 4.0F})))};
  EXPECT_THAT([&] { static_cast<void>(left.carrier()->dispatch_op("add")->forward(operands)); },
              ThrowsMessage<ProviderContractError>(HasSubstr("unauthorized operand")));
  EXPECT_THAT(floats(*left.carrier()), ElementsAre(1.0F, 2.0F));
  EXPECT_EQ(left.carrier()->version(), 0);
}

TEST(CarrierDefinition, NamesAreRefusedInOrder) {
  define<28>();
  define_kernels<29>({pattern("own", make_kernel(run))});
  const auto storage_only = Crate<28>::make(1);
  EXPECT_THAT([&] { static_cast<void>(storage_only->dispatch_op("add")); },
              ThrowsMessage<UnsupportedOperationPlan>(HasSubstr("storage-only")));
  EXPECT_THAT([] { static_cast<void>(Crate<29>::make(1)->dispatch_op("relu")); },
              ThrowsMessage<UnsupportedOperationPlan>(HasSubstr("no kernel")));
  EXPECT_THROW(static_cast<void>(storage_only->dispatch_op("no such name")), NotImplementedError);
  storage_only->release();
  EXPECT_THAT([&] { static_cast<void>(storage_only->dispatch_op("no such name")); },
              ThrowsMessage<RuntimeError>("Crate<28> is released"));
}

// --- Composites -------------------------------------------------------------------------------------------

/// A hierarchy of one tier.
class Wrapped final : public DefinedDependentCarrier {
 public:
  Ref<Carrier> inner;

 protected:
  [[nodiscard]] Ref<Carrier> make_blank() const override { return make_ref<Wrapped>(); }
};

Ref<Carrier>& inner_of(const Carrier& carrier) {
  return const_cast<Wrapped&>(dynamic_cast<const Wrapped&>(carrier)).inner;
}

StorageFunctions wrapped_storage() {
  return {.supports_dtype = [](const Carrier&, const DType& dtype) { return &dtype == &F; },
          .physical_size = [](const Carrier& carrier) { return inner_of(carrier)->size(); },
          .allocate = [](Carrier& carrier, Index slots) { inner_of(carrier) = CPU::make(slots); },
          .release = [](Carrier& carrier) { inner_of(carrier).reset(); },
          .read = [](const Carrier& carrier, Index index) { return inner_of(carrier)->at(index); },
          .write = [](Carrier& carrier, Index index,
                      const Scalar& value) { inner_of(carrier)->store(index, value); }};
}

CompositeFunctions adding_inside() {
  return {.capabilities = [](const Carrier&) { return std::vector{add_plan(F)}; },
          .result_carriers = [](const Carrier&,
                                const ResolvedInvocation&) { return std::vector{carrier_class<CPU>()}; },
          .prepare = [](Carrier&, const ResolvedInvocation& invocation) -> Result<PreparedComposite> {
            return PreparedComposite([invocation] {
              std::vector<Argument> operands;
              for (std::size_t i = 0; i < 2; ++i)
                operands.emplace_back(whole(inner_of(*invocation.tensor(i)->carrier())));
              return ProviderResult({operands[0].tensor()->carrier()->dispatch_op("add")->forward(operands)});
            });
          }};
}

TEST(CompositeProvider, ComputesOnWhatTheHierarchyIsBuiltFrom) {
  const auto storage = make_storage(wrapped_storage());
  const CarrierClass kind = carrier_class<Wrapped>();
  EXPECT_THAT([&] { register_carrier_definition(kind, {.storage = storage}); },
              ThrowsMessage<TypeError>(HasSubstr("requires composite")));
  EXPECT_THAT(
      [&] {
        register_carrier_definition(Crate<30>::kind(), {.storage = make_storage(functions<30>()),
                                                        .composite = make_composite(adding_inside())});
      },
      ThrowsMessage<TypeError>(HasSubstr("must not supply a composite")));
  EXPECT_THROW(static_cast<void>(make_composite({})), TypeError);
  register_carrier_definition(kind, {.storage = storage, .composite = make_composite(adding_inside())});
  const Ref<Carrier> one = make_defined<Wrapped>(2, {.dtype = F});
  one->store(0, Scalar(1.5F));
  EXPECT_EQ(one->operation_capabilities().size(), 1U);
  const std::array<Argument, 2> operands{Argument(whole(one)), Argument(whole(one))};
  const Tensor result = one->dispatch_op("add")->forward(operands);
  EXPECT_EQ(result.carrier_type(), carrier_class<CPU>());
  EXPECT_THAT(floats(*result.carrier()), ElementsAre(3.0F, 0.0F));
  EXPECT_THAT([&] { static_cast<void>(one->dispatch_op("relu")); },
              ThrowsMessage<UnsupportedOperationPlan>(HasSubstr("does not support")));
}

}  // namespace
}  // namespace orlop
