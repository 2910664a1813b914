// The Python faces of Carrier and DependentCarrier, and the trampoline behind carriers written in Python.
#include "carrier.hpp"

#include <nanobind/trampoline.h>

#include <bit>
#include <cstring>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include "orlop/operation/capability.hpp"
#include "orlop/operation/operation.hpp"
#include "orlop/storage/normalize.hpp"
#include "orlop/tensor/scatter.hpp"
#include "python_carrier.hpp"
#include "tensor.hpp"

namespace orlop::bindings {

// --- Class identity ---------------------------------------------------------------------------------------

namespace {

bool is_subclass(nb::handle type, nb::handle base) {
  const int result = PyObject_IsSubclass(type.ptr(), base.ptr());
  if (result < 0) throw_python_error();
  return result == 1;
}

/// Whether `type` is itself bound to a C++ class, not a Python class derived from one.
bool is_native(nb::handle type) {
  return nb::type_check(type) && NB_CALL(nb_type_lookup)(NB_CTX, &nb::type_info(type)) == type.ptr();
}

}  // namespace

namespace {

/// The classes met so far. Each is held, so that no other class gets its address and with it its identity.
std::unordered_map<PyObject*, CarrierClass>& known_classes() {
  static auto& known = *std::make_unique<std::unordered_map<PyObject*, CarrierClass>>().release();
  return known;
}

/// At interpreter exit: a held class would keep its module, and that all its globals.
void forget_classes() {
  for (const auto& [type, carrier_class] : std::exchange(known_classes(), {})) {
    carrier_class.record()->python_type = nullptr;
    Py_DECREF(type);
  }
}

}  // namespace

CarrierClass carrier_class_of_type(nb::handle type) {
  auto& known = known_classes();
  if (!PyType_Check(type.ptr())) return {};
  const auto found = known.find(type.ptr());
  if (found != known.end()) return found->second;
  if (!is_subclass(type, nb::type<Carrier>())) return {};
  const bool dependent = is_subclass(type, nb::type<DependentCarrier>());
  CarrierClass result;
  if (is_native(type)) {
    result = orlop::detail::native_carrier_class(nb::type_info(type), dependent);
    result.record()->python_type = type.ptr();
  } else {
    result = orlop::detail::python_carrier_class(type.ptr(), to_text(type.attr("__name__")), dependent);
  }
  Py_INCREF(type.ptr());  // an identity must never be reused by another class
  known.emplace(type.ptr(), result);
  return result;
}

nb::object python_class(CarrierClass carrier_class) {
  if (!carrier_class) return nb::none();
  void* type = carrier_class.record()->python_type.load();
  if (type == nullptr) return nb::str(std::string(carrier_class.name()).c_str());
  return nb::borrow(static_cast<PyObject*>(type));
}

// --- Values

NativeBuffer::NativeBuffer(nb::handle exporter) {
  if (PyObject_GetBuffer(exporter.ptr(), &view_, PyBUF_FORMAT | PyBUF_STRIDES) == 0)
    is_held_ = true;
  else
    PyErr_Clear();
}

NativeBuffer::~NativeBuffer() {
  if (is_held_) PyBuffer_Release(&view_);
}

StorageType storage_type_of(const Py_buffer& view) {
  std::string_view format = view.format == nullptr ? "B" : view.format;
  constexpr char native = std::endian::native == std::endian::little ? '<' : '>';
  if (format.size() == 2 && (format[0] == '@' || format[0] == '=' || format[0] == native))
    format.remove_prefix(1);
  if (format == "f" && view.itemsize == 4) return StorageType::float32;
  if ((format == "i" || format == "l") && view.itemsize == 4) return StorageType::int32;
  return format == "?" && view.itemsize == 1 ? StorageType::bool8 : StorageType::other;
}

bool NativeBuffer::holds(const DType& dtype) const {
  return storage_type() != StorageType::other && storage_type() == dtype.storage_type() && view_.ndim == 1 &&
         PyBuffer_IsContiguous(&view_, 'C') == 1;
}

namespace {

void pack_value(nb::handle value, const DType& dtype, bool holes_are_zero, std::string_view what,
                std::byte* slot) {
  if (value.is_none() && holes_are_zero) {
    std::memset(slot, 0, static_cast<std::size_t>(dtype.slot_bytes()));
    return;
  }
  if (dtype.storage_type() == StorageType::int32 && !PyLong_Check(value.ptr()) &&
      PyIndex_Check(value.ptr()) != 0) {
    const Index number = to_index(value, what, "a value");
    encode_slot(dtype, Scalar(number), slot);
    return;
  }
  encode_slot(dtype, to_scalar(value, what, "a value"), slot);
}

}  // namespace

std::vector<std::byte> pack_values(nb::handle values, const DType& dtype, bool holes_are_zero,
                                   std::string_view what) {
  const auto bytes = static_cast<std::size_t>(dtype.slot_bytes());
  std::vector<std::byte> slots;
  if (PyObject_CheckBuffer(values.ptr()) != 0) {
    const NativeBuffer buffer(values);
    if (buffer.holds(dtype)) {
      slots.resize(static_cast<std::size_t>(buffer.view().len));
      std::memcpy(slots.data(), buffer.view().buf, slots.size());
      if (dtype.storage_type() == StorageType::bool8)
        for (std::byte& slot : slots) slot = slot == std::byte{0} ? std::byte{0} : std::byte{1};
      return slots;
    }
  }
  const nb::object iterator = to_iterator(values, what, "values");
  if (PyList_CheckExact(values.ptr()) || PyTuple_CheckExact(values.ptr()))
    slots.reserve(static_cast<std::size_t>(PyObject_Size(values.ptr())) * bytes);
  while (true) {
    const nb::object value = nb::steal(PyIter_Next(iterator.ptr()));
    if (!value.is_valid()) break;
    slots.resize(slots.size() + bytes);
    pack_value(value, dtype, holes_are_zero, what, slots.data() + slots.size() - bytes);
  }
  if (PyErr_Occurred() != nullptr) throw_python_error();
  return slots;
}

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

// --- Constructor arguments

CallArguments::CallArguments(const char* name, const nb::args& args, const nb::kwargs& kwargs,
                             std::initializer_list<const char*> positional, std::size_t required,
                             std::initializer_list<const char*> keywords)
    : name_(name) {
  for (const char* parameter : positional) values_.emplace_back(parameter, nb::object());
  for (const char* parameter : keywords) values_.emplace_back(parameter, nb::object());
  if (args.size() > positional.size())
    raise<TypeError>(name, name, "() takes at most ", positional.size(), " positional arguments but ",
                     args.size(), " were given; the others are keyword-only");
  for (std::size_t i = 0; i < args.size(); ++i) values_[i].second = args[i];
  for (const auto& [key, value] : kwargs) {
    const auto word = to_text(key);
    const auto found =
        std::find_if(values_.begin(), values_.end(), [&](const auto& entry) { return entry.first == word; });
    if (found == values_.end())
      raise<TypeError>(name, name, "() got an unexpected keyword argument '", word, "'");
    if (found->second.is_valid())
      raise<TypeError>(name, name, "() got multiple values for argument '", word, "'");
    found->second = nb::borrow(value);
  }
  for (std::size_t i = 0; i < required; ++i)
    if (!values_[i].second.is_valid())
      raise<TypeError>(name, name, "() missing 1 required positional argument: '", values_[i].first, "'");
}

nb::object CallArguments::get(std::string_view name) const {
  for (const auto& [known, value] : values_)
    if (known == name) return value;
  return {};
}

nb::object CallArguments::require_keyword(std::string_view name) const {
  nb::object value = get(name);
  if (!value.is_valid())
    raise<TypeError>(name_, name_, "() missing 1 required keyword-only argument: '", name, "'");
  return value;
}

bool CallArguments::flag(std::string_view name, bool otherwise) const {
  const nb::object value = get(name);
  return value.is_valid() ? to_bool(value, name_, name) : otherwise;
}

// --- Closed classes

namespace {

std::string closed_message(std::string_view name) {
  std::string message(closed_carrier_message);
  constexpr std::string_view field = "{name}";
  for (auto at = message.find(field); at != std::string::npos; at = message.find(field, at + name.size()))
    message.replace(at, field.size(), name);
  return message;
}

}  // namespace

void reject_subclasses(nb::handle bound, const char* name) {
  const nb::object hook = nb::cpp_function(
      [message = closed_message(name)](const nb::args&, const nb::kwargs&) { throw TypeError(message); });
  nb::setattr(bound, "__init_subclass__", nb::steal(PyClassMethod_New(hook.ptr())));
}

// --- Carriers written in Python

namespace {

/// Whether `carrier` is written in Python: then a bound base method was reached by `super()` or for want of
/// an override.
bool is_python(const Carrier& carrier) {
  // Types of this module alone: they have one address each.
  const std::type_info* const type = &typeid(carrier);
  return type == &typeid(LegacyCarrier) || type == &typeid(LegacyDependentCarrier);
}

/// X9: the constructor of a class with its own definition, whose providers see the carrier meanwhile.
template <class Base>
void construct_defined(nb::pointer_and_handle<Base> self, CarrierClass exact, const nb::args& args,
                       const nb::kwargs& kwargs) {
  const std::string name(exact.name());
  const CallArguments arguments(name.c_str(), args, kwargs, {"slots"}, 0, {"dtype", "mutable"});
  const nb::object slots = arguments.get("slots");
  const nb::object dtype = arguments.get("dtype");
  for (const auto& [value, field] : {std::pair(slots, "slots"), std::pair(dtype, "dtype")})
    if (!value.is_valid() || value.is_none())
      raise<TypeError>(name, field, " must be given: a class with a CarrierDefinition is made by ",
                       "Carrier.__init__(slots, dtype=…, mutable=True)");
  if (!PyLong_CheckExact(slots.ptr()))
    raise<TypeError>(name, "slots must be an int: got ", python_type_name(slots));
  const Index count = to_index(slots, name, "slots");
  if (count < 0) raise<ValueError>(name, "slots must not be negative: got ", count);
  const DType& stored = to_dtype(dtype, name);
  const bool is_mutable = arguments.flag("mutable", true);
  auto* carrier = new (static_cast<void*>(self.p)) PythonDefined<Base>(exact);
  nb::inst_mark_ready(self.h);
  carrier->set_python_object(self.h.ptr());
  carrier->construct(count, {.dtype = stored, .is_mutable = is_mutable});
}

template <class Base>
void construct_python_carrier(nb::pointer_and_handle<Base> self, const nb::args& args,
                              const nb::kwargs& kwargs) {
  const nb::handle type = self.h.type();
  const auto name = to_text(type.attr("__name__"));
  if (is_native(type)) raise<TypeError>(name, name, " is abstract; subclass it and implement its hooks");
  const CarrierClass exact = carrier_class_of_type(type);
  if (exact.is_defined()) return construct_defined(self, exact, args, kwargs);
  if (args.size() != 0 || kwargs.size() != 0)
    raise<TypeError>(name, "definition-free Carrier construction takes no arguments; call super().__init__()",
                     " or register a CarrierDefinition for ", name, " itself");
  std::string missing;
  for (const char* hook : required_hooks)
    if (!overrides(self.h, hook)) missing += missing.empty() ? hook : text(", ", hook);
  if (!missing.empty())
    raise<TypeError>(name, "the class does not implement the required hooks of a Carrier: ", missing);
  orlop::detail::observe_class(exact);
  if (exact.is_defined()) return construct_defined(self, exact, args, kwargs);  // a definition came first
  new (static_cast<void*>(self.p)) PythonCarrier<Base>(exact);
}

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

void bind_carrier(nb::module_& module) {
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(forget_classes));
  module.attr("CLOSED_CARRIER_MESSAGE") =
      nb::str(closed_carrier_message.data(), closed_carrier_message.size());
  module.def(
      "reject_carrier_subclass", [](const std::string& name) { throw TypeError(closed_message(name)); },
      "name"_a, "Raises the TypeError that every closed carrier class gives to a subclass (S108).");

  nb::class_<Carrier, PythonCarrierRoom<Carrier>> carrier(
      module, "Carrier", counted<Carrier>(), nb::type_slots(collector_slots), nb::is_weak_referenceable(),
      nb::dynamic_attr(), "One homogeneous storage sequence: the extension point for storage authors.");
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
      .def("get_value", &base_get_value, "index"_a.none(), "The value of one slot.")
      .def("set_value", &base_set_value, "index"_a.none(), "value"_a.none(),
           "Writes one slot; the version advances once.")
      .def("new_like", &base_new_like, "values"_a.none(), nb::kw_only(), "mutable"_a = true,
           "dtype"_a = nb::none(), "Fresh storage of the same kind holding `values`.")
      .def("allocate_like", &base_allocate_like, "size"_a.none(), nb::kw_only(), "mutable"_a = true,
           "dtype"_a = nb::none(), "empty"_a = false,
           "Fresh storage of the same kind with `size` slots, zero unless `empty`.")
      .def("scatter", &base_scatter, "to_scatter"_a.none(), "scatter_onto"_a.none(), "mapping"_a.none(),
           "mapping_offset"_a = 0, "Writes the logical values of a Tensor through a mapping.")
      .def("dlpack_info", &base_dlpack_info, "pointer, device_type and device_id, or BufferError.")
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
          "size"_a, "Hook: turns an empty carrier into one of `size` zero slots.")
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
           "Structural support; allocates nothing.")
      .def("dispatch_op", &dispatch_op, "operation_name"_a.none(),
           "A fresh operation bound to the name and this exact class.")
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

  nb::class_<DependentCarrier, Carrier, PythonCarrierRoom<DependentCarrier>> dependent(
      module, "DependentCarrier", counted<DependentCarrier>(), nb::type_slots(collector_slots),
      "Base of carriers whose capabilities depend on what they are built from.");
  dependent.def("__init__", &construct_python_carrier<DependentCarrier>);
}

}  // namespace orlop::bindings
