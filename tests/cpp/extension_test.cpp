// Carrier definitions from C++: storage through a provider, facets, routes, observation (X6-X20, X130-X132).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
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

}  // namespace
}  // namespace orlop
