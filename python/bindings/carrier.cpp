// The Python faces of Carrier and DependentCarrier: what their methods do behind a Python class.
#include "carrier.hpp"

#include <utility>

#include "carrier_class.hpp"
#include "orlop/operation/operation.hpp"
#include "orlop/storage/normalize.hpp"
#include "orlop/tensor/scatter.hpp"
#include "packing.hpp"
#include "python_carrier.hpp"
#include "tensor.hpp"

namespace orlop::bindings {

namespace {

/// Behind `super().new_like` of a class that overrides it: what the base itself does.
Ref<Carrier> new_like_own(const Carrier& prototype, std::span<const Scalar> values,
                          const NewLikeOptions& options) {
  if (const auto* own = dynamic_cast<const OwnFactories*>(&prototype))
    return own->own_new_like(values, options);
  return prototype.new_like(values, options);
}

}  // namespace

Ref<Carrier> new_like(const Carrier& prototype, nb::handle values, bool is_mutable, DTypeRef dtype) {
  const DType& stored = prototype.factory_dtype(dtype);
  const CarrierClass kind = prototype.carrier_class();
  if (stored.storage_type() == StorageType::other) {  // a custom kind whose values have no encoding of ours
    std::vector<Scalar> scalars;
    for (const nb::handle value : nb::iter(values))
      scalars.push_back(to_scalar(value, kind.name(), "a value"));
    return new_like_own(prototype, scalars, {.is_mutable = is_mutable, .dtype = stored});
  }
  const bool is_plain = kind.is_shipped() && !kind.is_dependent();
  const auto from_slots = [&](const void* slots, Index bytes) {
    const Index count = bytes / stored.slot_bytes();
    Ref<Carrier> result =
        prototype.allocate_like(count, {.is_mutable = is_mutable, .dtype = stored, .empty = true});
    result->write_span(0, count, slots);
    return result;
  };
  // Bools pass through pack_values: a foreign byte may hold more than 0 and 1.
  if (is_plain && &stored != &dtypes::Bool && PyObject_CheckBuffer(values.ptr()) != 0)
    if (const NativeBuffer buffer(values); buffer.holds(stored))
      return from_slots(buffer.view().buf, buffer.view().len);
  const std::vector<std::byte> slots = pack_values(values, stored, prototype.holes_are_zero(), kind.name());
  if (is_plain) return from_slots(slots.data(), static_cast<Index>(slots.size()));
  const auto count = static_cast<Index>(slots.size()) / stored.slot_bytes();
  // A custom kind, or a hierarchy over one, makes its own from values.
  std::vector<Scalar> scalars;
  scalars.reserve(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i)
    scalars.push_back(decode_slot(stored, slots.data() + i * stored.slot_bytes()));
  return new_like_own(prototype, scalars, {.is_mutable = is_mutable, .dtype = stored});
}

namespace {

[[noreturn]] void refuse_base_hook(const Carrier& self, std::string_view hook) {
  raise<NotImplementedError>(self.carrier_class().name(), "Carrier.", hook,
                             " is abstract; the class must implement it");
}

Index to_slot(const Carrier& self, nb::handle key) {
  return to_index<IndexError>(key, self.carrier_class().name(), "the index", true);
}

/// A value for a slot, with the integer-index protocol where integers are stored.
Scalar to_slot_value(const Carrier& self, nb::handle value) {
  if (self.dtype().storage_type() == StorageType::int32 && !PyBool_Check(value.ptr()) &&
      PyIndex_Check(value.ptr()) != 0)
    return Scalar(to_index(value, self.carrier_class().name(), "value"));
  return to_scalar(value, self.carrier_class().name(), "value");
}

nb::object base_get_value(Carrier& self, nb::handle index) {
  if (is_python(self)) refuse_base_hook(self, "get_value");
  return from_scalar(self.at(to_slot(self, index)));
}

void base_set_value(Carrier& self, nb::handle key, nb::handle value) {
  const Index index = to_slot(self, key);
  if (is_python(self)) return self.Carrier::set_value(index, Scalar(0));
  self.check_writable(index);
  self.store(index, to_slot_value(self, value));
}

Ref<Carrier> base_new_like(Carrier& self, nb::handle values, nb::handle is_mutable, nb::handle dtype) {
  if (is_python(self)) refuse_base_hook(self, "new_like");
  const std::string_view name = self.carrier_class().name();
  const bool wanted = to_bool(is_mutable, name, "mutable");
  return new_like(self, values, wanted, dtype.is_none() ? DTypeRef() : DTypeRef(to_dtype(dtype, name)));
}

Ref<Carrier> base_allocate_like(Carrier& self, nb::handle size, nb::handle is_mutable, nb::handle dtype,
                                nb::handle empty) {
  if (is_python(self)) refuse_base_hook(self, "allocate_like");
  const std::string_view name = self.carrier_class().name();
  const Index slots = to_size(size, name, true);
  AllocateOptions options{.is_mutable = to_bool(is_mutable, name, "mutable"),
                          .empty = to_bool(empty, name, "empty")};
  options.dtype = self.factory_dtype(dtype.is_none() ? DTypeRef() : DTypeRef(to_dtype(dtype, name)));
  if (const auto* own = dynamic_cast<const OwnFactories*>(&self))
    return own->own_allocate_like(slots, options);
  return self.allocate_like(slots, options);
}

void base_scatter(Carrier& self, nb::handle to_scatter, nb::handle scatter_onto, nb::handle mapping,
                  nb::handle offset) {
  if (is_python(self)) return self.Carrier::scatter(Tensor(), Tensor(), Layout(), 0);
  scatter(self, to_scatter, scatter_onto, mapping, offset);
}

nb::dict base_dlpack_info(Carrier& self) {
  const bool is_own = is_python(self) || dynamic_cast<OwnFactories*>(&self) != nullptr;
  const DLPackInfo info = is_own ? self.Carrier::dlpack_info() : self.dlpack_info();
  nb::dict result;
  result["pointer"] = reinterpret_cast<std::uintptr_t>(info.pointer);
  result["device_type"] = info.device_type;
  result["device_id"] = info.device_id;
  return result;
}

/// A call that takes an ownership token; an integer that cannot be one is only a wrong one (S201).
template <void (Carrier::*call)(Carrier::OwnerToken)>
void with_token(Carrier& self, nb::handle token) {
  const Index number = to_index<RuntimeError>(token, self.carrier_class().name(), "the ownership token");
  (self.*call)(static_cast<Carrier::OwnerToken>(number));
}

bool supports_storage_dtype(Carrier& self, nb::handle dtype) {
  return self.supports_storage_dtype(to_dtype(dtype, self.carrier_class().name()));
}

Ref<Operation> dispatch_op(Carrier& self, nb::handle name) {
  if (!PyUnicode_Check(name.ptr()))
    raise<TypeError>(self.carrier_class().name(), "operation_name must be a str: got ",
                     python_type_name(name));
  return self.dispatch_op(to_text(nb::str(name)));
}

}  // namespace

Index to_size(nb::handle value, std::string_view what, bool allow_bool) {
  const auto exact = detail::index_protocol(value, what, "size", allow_bool);
  const Index size = exact ? *exact : PyNumber_AsSsize_t(value.ptr(), nullptr);  // or the nearest one
  if (PyErr_Occurred() != nullptr) throw_python_error();
  if (size < 0)
    raise<ValueError>(what, "size must not be negative: got ", exact ? "" : "less than ", size,
                      "; a carrier has 0 or more slots");
  if (!exact) raise<OverflowError>(what, "size leaves 64 bits; use an integer up to 2**63 - 1");
  return size;
}

Ref<Carrier> to_carrier(nb::handle value, std::string_view what, std::string_view name) {
  if (auto* carrier = try_native<Carrier>(value)) return Ref<Carrier>(carrier);
  raise<TypeError>(what, name, " must be a Carrier: got ", python_type_name(value));
}

// The offset, or the nearest number of 64 bits: no carrier has such a slot. What is wrong with a scatter
// before its offset comes first (S112).
Index to_scatter_offset(const Carrier& self, const Tensor& source, const Tensor& destination,
                        const Layout& mapping, nb::handle offset) {
  try {
    if (const auto exact =
            detail::index_protocol(offset, self.carrier_class().name(), "mapping_offset", false))
      return *exact;
  } catch (const std::exception&) {
    check_scatter(self, source, destination, mapping);
    throw;
  }
  const Index nearest = PyNumber_AsSsize_t(offset.ptr(), nullptr);
  if (PyErr_Occurred() != nullptr) throw_python_error();
  return nearest;
}

void scatter(Carrier& self, nb::handle to_scatter, nb::handle scatter_onto, nb::handle mapping,
             nb::handle offset) {
  const std::string_view name = self.carrier_class().name();
  self.require_live();
  self.require_mutable();
  self.require_reachable();
  const Tensor source = to_tensor(to_scatter, name, "to_scatter");
  const Tensor destination = to_tensor(scatter_onto, name, "scatter_onto");
  if (!nb::isinstance<Layout>(mapping))
    raise<TypeError>(name, "mapping must be a Layout: got ", python_type_name(mapping));
  const Index start = to_scatter_offset(self, source, destination, nb::cast<Layout>(mapping), offset);
  if (auto* own = dynamic_cast<OwnFactories*>(&self))
    return own->own_scatter(source, destination, nb::cast<Layout>(mapping), start);
  self.scatter(source, destination, nb::cast<Layout>(mapping), start);
}

nb::object carrier_item(Carrier& carrier, Index slot) {
  carrier.check_readable(slot);
  // A carrier written in Python may hold values that are no numbers.
  if (is_python(carrier)) return nb::handle(carrier.python_object()).attr("get_value")(slot);
  return from_scalar(carrier.get_value(slot));
}

void set_carrier_item(Carrier& carrier, Index slot, nb::handle value) {
  carrier.check_writable(slot);
  if (!is_python(carrier)) return carrier.store(slot, to_slot_value(carrier, value));
  const std::int64_t before = carrier.version();
  nb::handle(carrier.python_object()).attr("set_value")(slot, value);
  if (carrier.version() == before) carrier.increment_version();
}

namespace {

using CarrierBinding = nb::class_<Carrier, PythonCarrierRoom<Carrier>>;

/// What a class written in Python may override: its hooks (S101) and the factories.
void bind_hooks(CarrierBinding& carrier) {
  carrier.def("__init__", &construct_python_carrier<Carrier>)
      .def(
          "size",
          [](Carrier& self) {
            if (is_python(self)) refuse_base_hook(self, "size");
            return self.size();
          },
          "Number of physical slots.")
      .def(
          "dtype",
          [](Carrier& self) {
            if (is_python(self)) refuse_base_hook(self, "dtype");
            return from_dtype(self.dtype());
          },
          nb::sig("def dtype(self) -> DType"), "The dtype of every slot; also after release.")
      .def("get_value", &base_get_value, "index"_a.none(),
           "The value of one slot. TypeError, IndexError for the index; RuntimeError once released.")
      .def("set_value", &base_set_value, "index"_a.none(), "value"_a.none(),
           "Writes one slot; the version advances once. TypeError, IndexError, OverflowError for what does "
           "not fit "
           "the slot; RuntimeError where the carrier is not mutable.")
      .def(
          "new_like", &base_new_like, "values"_a.none(), nb::kw_only(), "mutable"_a = true,
          "dtype"_a = nb::none(),
          R"(Fresh storage of the same kind holding `values`, of this dtype where none is named. TypeError, ValueError and
OverflowError for values and dtypes that the kind does not store.

>>> carrier = orlop.CPU(0).new_like([1, 2], mutable=False)
>>> carrier[1], carrier.is_mutable()
(2.0, False))")
      .def(
          "allocate_like", &base_allocate_like, "size"_a.none(), nb::kw_only(), "mutable"_a = true,
          "dtype"_a = nb::none(), "empty"_a = false,
          R"(Fresh storage of the same kind with `size` slots, zero unless `empty`, of this dtype where none is named.
TypeError, ValueError for the arguments, MemoryError where there is no room.

>>> carrier = orlop.CPU(0).allocate_like(3, dtype=orlop.DType.Int32)
>>> carrier.size(), carrier[0]
(3, 0))")
      .def(
          "scatter", &base_scatter, "to_scatter"_a.none(), "scatter_onto"_a.none(), "mapping"_a.none(),
          "mapping_offset"_a = 0,
          R"(Writes the logical values of a Tensor: that of ordinal i to the slot scatter_onto.offset + mapping_offset +
mapping(i). Errors: TypeError for other types, ValueError for operands elsewhere or what does not fit.

>>> from orlop import Layout, Shape, Stride, friendly
>>> onto = friendly.zeros(4)
>>> onto.carrier.scatter(friendly.tensor([1, 2]), onto, Layout(Shape(2), Stride(2)))
>>> friendly.to_list(onto)
[1.0, 0.0, 2.0, 0.0])")
      .def("dlpack_info", &base_dlpack_info, R"(pointer, device_type and device_id, or BufferError.

>>> sorted(orlop.CPU(1).dlpack_info())
['device_id', 'device_type', 'pointer']
>>> orlop.FileBacked(dtype=orlop.DType.Float32).dlpack_info()
Traceback (most recent call last):
    ...
BufferError: [FileBacked] DLPack export is not supported; move the Tensor to CPU first, or ...)")
      .def(
          "_is_mutable", [](Carrier&) { return false; }, "Hook: whether the storage permits writes.")
      .def(
          "_supports_storage_dtype",
          [](Carrier& self, nb::handle dtype) { return try_dtype(dtype) == &self.dtype(); }, "dtype"_a,
          "Hook: structural support for a storage dtype.")
      .def(
          "_dispatch_op",
          [](Carrier& self, std::string_view name) {
            raise<NotImplementedError>(self.carrier_class().name(), "operation ", name,
                                       " is not supported on this carrier");
          },
          "operation_name"_a, "Hook: a fresh Operation for a dispatch name.")
      .def(
          "_release", [](Carrier&) {}, "Hook: gives up the storage, once.")
      .def(
          "_allocate",
          [](Carrier& self, Index size) {
            if (is_python(self)) refuse_base_hook(self, "_allocate");
            self.allocate(size);
          },
          "size"_a, "Hook: turns an empty carrier into one of `size` zero slots.");
}

/// What is there for every carrier.
void bind_interface(CarrierBinding& carrier) {
  carrier
      .def(
          "__getitem__",
          [](Carrier& self, nb::handle index) { return carrier_item(self, to_slot(self, index)); },
          "index"_a.none())
      .def(
          "__setitem__",
          [](Carrier& self, nb::handle index, nb::handle value) {
            set_carrier_item(self, to_slot(self, index), value);
          },
          "index"_a.none(), "value"_a.none())
      .def("is_mutable", &Carrier::is_mutable, "Whether public interfaces may write now.")
      .def("is_owned", &Carrier::is_owned, "Whether another carrier owns this one exclusively.")
      .def("is_released", &Carrier::is_released, "Whether the storage is gone for good.")
      .def("release", &Carrier::release, "Gives the storage up for good; idempotent.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> typing.Self"))
      .def(
          "__exit__", [](Carrier& self, const nb::args&) { self.release(); }, "exception"_a,
          "Releases the carrier: `with FileBacked(dtype=DType.Float32) as scratch:`.")
      .def("__repr__", &Carrier::to_string)
      .def_prop_ro("version", &Carrier::version, "Advances with every successful mutation.")
      .def("_increment_version", &Carrier::increment_version, "For authors: one more successful mutation.")
      .def("supports_storage_dtype", &supports_storage_dtype, "dtype"_a.none(),
           "Whether the kind can store the dtype; allocates nothing. TypeError for what is no DType.")
      .def(
          "dispatch_op", &dispatch_op, "operation_name"_a.none(),
          R"(A fresh operation bound to the name and this exact class. TypeError for what is no str, NotImplementedError for a
name that the class does not dispatch.

>>> from orlop import CPU, friendly
>>> tensor = friendly.tensor([3, -2])
>>> friendly.to_list(tensor.carrier.dispatch_op("relu").forward(tensor))
[3.0, 0.0]
>>> CPU(1).dispatch_op("swish")
Traceback (most recent call last):
    ...
NotImplementedError: [table_operation] no built-in operation has this name: got 'swish'; ...)")
      .def("_claim_ownership", &Carrier::claim_ownership)
      .def("_relinquish_ownership", &with_token<&Carrier::relinquish_ownership>, "token"_a.none())
      .def("_begin_owner_access", &with_token<&Carrier::begin_owner_access>, "token"_a.none())
      .def("_end_owner_access", &with_token<&Carrier::end_owner_access>, "token"_a.none())
      .def("_has_owner_access", &Carrier::has_owner_access);
  for (const char* name : {"__reduce_ex__", "__copy__", "__deepcopy__"})
    carrier.def(name, [](Carrier& self, const nb::args&) {
      raise<TypeError>(self.carrier_class().name(),
                       "a carrier is not copied or pickled implicitly; use new_like, "
                       "allocate_like or move");
    });
}

}  // namespace

void bind_carrier(nb::module_& module) {
  bind_carrier_classes(module);

  CarrierBinding carrier(module, "Carrier", counted<Carrier>(), nb::type_slots(collector_slots),
                         nb::is_weak_referenceable(), nb::dynamic_attr(),
                         R"(One homogeneous storage sequence: the extension point for storage authors.

>>> carrier = orlop.CPU(0).new_like([1, 2])
>>> carrier.set_value(0, 5)
>>> carrier.get_value(0), carrier.size(), carrier.dtype(), carrier.version
(5.0, 2, SimpleDType('Float32'), 1)
>>> carrier.is_mutable(), carrier.is_owned(), carrier.supports_storage_dtype(orlop.DType.Bool)
(True, False, True)
>>> carrier.release()
>>> carrier.is_released(), carrier.size()
(True, 0)
>>> class Boxed(orlop.Carrier):
...     def size(self):
...         return 0
>>> Boxed()
Traceback (most recent call last):
    ...
TypeError: [Boxed] the class does not implement the required hooks of a Carrier: dtype, get_value, ...)");
  bind_hooks(carrier);
  bind_interface(carrier);

  nb::class_<DependentCarrier, Carrier, PythonCarrierRoom<DependentCarrier>> dependent(
      module, "DependentCarrier", counted<DependentCarrier>(), nb::type_slots(collector_slots),
      R"(Base of carriers whose capabilities depend on what they are built from.

>>> issubclass(orlop.Evictable, orlop.DependentCarrier), issubclass(orlop.CPU, orlop.DependentCarrier)
(True, False))");
  dependent.def("__init__", &construct_python_carrier<DependentCarrier>);
}

}  // namespace orlop::bindings
