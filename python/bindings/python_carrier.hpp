// Carriers written in Python: the C++ object behind an instance, whose virtual functions call the Python
// methods of the same names, or the providers of the class's CarrierDefinition.
#pragma once

#include <array>
#include <span>

#include "carrier.hpp"
#include "orlop/extension/defined_carrier.hpp"
#include "orlop/operation/operation.hpp"
#include "tensor.hpp"

namespace orlop::bindings {

/// What a carrier written in Python without a CarrierDefinition must implement (S101).
inline constexpr const char* required_hooks[] = {"size",     "dtype",         "get_value",
                                                 "new_like", "allocate_like", "scatter"};

/// Whether the class of `self` replaces the attribute that the base class `Carrier` has.
bool overrides(nb::handle self, const char* name);
/// The keywords of a factory call; hooks written without dtype= still work while it is the receiver's own
/// (S107).
nb::dict factory_keywords(bool is_mutable, DTypeRef dtype, const Carrier& receiver);
/// What a `dlpack_info` hook returned: anything that makes a dict (S701).
DLPackInfo to_dlpack_info(const nb::object& info, std::string_view name);
/// `factory` of a carrier, called: the Carrier that it returns, or TypeError.
Ref<Carrier> call_factory(const Carrier& carrier, const char* factory, nb::handle source,
                          const nb::dict& keywords);

/// Every hook calls the Python method of its name, with the interpreter's lock.
template <class Base>
class PythonCarrier : public Base {
 public:
  explicit PythonCarrier(CarrierClass carrier_class) : Base(carrier_class) {}

  [[nodiscard]] Index size() const override {
    const InterpreterLock lock;
    const Index result = to_index(self().attr("size")(), name(), "size()");
    if (result < 0) raise<ValueError>(name(), "size() must not be negative: got ", result);
    return result;
  }
  [[nodiscard]] const DType& dtype() const override {
    const InterpreterLock lock;
    return to_dtype(self().attr("dtype")(), name());
  }
  [[nodiscard]] Scalar get_value(Index index) const override {
    const InterpreterLock lock;
    return to_scalar(self().attr("get_value")(index), name(), "get_value()");
  }
  /// Runs no hook.
  [[nodiscard]] std::string to_string() const override {
    return text(name(), "(residency=", this->residency_word(), ", version=", this->version(), ")");
  }
  void set_value(Index index, const Scalar& value) override {
    const InterpreterLock lock;
    self().attr("set_value")(index, from_scalar(value));
  }
  [[nodiscard]] Ref<Carrier> new_like(Sequence<Scalar> values, const NewLikeOptions& options) const override {
    const InterpreterLock lock;
    nb::list list;
    for (const Scalar& value : values) list.append(from_scalar(value));
    return call_factory(*this, "new_like", list, factory_keywords(options.is_mutable, options.dtype, *this));
  }
  [[nodiscard]] Ref<Carrier> allocate_like(Index size, const AllocateOptions& options) const override {
    const InterpreterLock lock;
    return call_factory(*this, "allocate_like", nb::int_(size),
                        factory_keywords(options.is_mutable, options.dtype, *this));
  }
  void scatter(const Tensor& to_scatter, const Tensor& scatter_onto, const Layout& mapping,
               Index offset) override {
    const InterpreterLock lock;
    self().attr("scatter")(to_scatter, scatter_onto, mapping, offset);
  }
  [[nodiscard]] DLPackInfo dlpack_info() const override {
    const InterpreterLock lock;
    if (!overrides(self(), "dlpack_info")) return Base::dlpack_info();
    return to_dlpack_info(self().attr("dlpack_info")(), name());
  }
  [[nodiscard]] bool is_growable() const noexcept override {
    const InterpreterLock lock;
    return overrides(self(), "_allocate");
  }

 protected:
  [[nodiscard]] bool intrinsic_mutable() const override {
    const InterpreterLock lock;
    return to_bool(self().attr("_is_mutable")(), name(), "_is_mutable()");
  }
  [[nodiscard]] bool stores(const DType& dtype) const override {
    const InterpreterLock lock;
    return to_bool(self().attr("_supports_storage_dtype")(from_dtype(dtype)), name(),
                   "_supports_storage_dtype()");
  }
  [[nodiscard]] Ref<Operation> make_operation(std::string_view operation_name) override {
    const InterpreterLock lock;
    if (!overrides(self(), "_dispatch_op")) return Base::make_operation(operation_name);
    const nb::object operation =
        self().attr("_dispatch_op")(nb::str(operation_name.data(), operation_name.size()));
    if (!nb::isinstance<Operation>(operation))
      raise<TypeError>(name(), "_dispatch_op must return an Operation: got ", python_type_name(operation));
    return nb::cast<Ref<Operation>>(operation);
  }
  void on_release() override {
    const InterpreterLock lock;
    self().attr("_release")();
  }
  void on_allocate(Index size) override {
    const InterpreterLock lock;
    if (!overrides(self(), "_allocate")) return Base::on_allocate(size);
    self().attr("_allocate")(size);
  }

 private:
  [[nodiscard]] nb::handle self() const { return this->python_object(); }
  [[nodiscard]] std::string_view name() const { return this->carrier_class().name(); }
};

using LegacyCarrier = PythonCarrier<Carrier>;
using LegacyDependentCarrier = PythonCarrier<DependentCarrier>;

/// What the base class itself does behind a hook that a Python class may override.
class OwnFactories {
 public:
  OwnFactories() = default;
  OwnFactories(const OwnFactories&) = delete;
  OwnFactories& operator=(const OwnFactories&) = delete;
  virtual ~OwnFactories() = default;
  [[nodiscard]] virtual Ref<Carrier> own_new_like(Sequence<Scalar> values,
                                                  const NewLikeOptions& options) const = 0;
  [[nodiscard]] virtual Ref<Carrier> own_allocate_like(Index size, const AllocateOptions& options) const = 0;
  virtual void own_scatter(const Tensor& to_scatter, const Tensor& scatter_onto, const Layout& mapping,
                           Index offset) = 0;
};

/// A Python class with a CarrierDefinition: its providers keep the slots. It may override the factories,
/// `scatter` and `dlpack_info`.
template <class Base>
class PythonDefined final : public DefinedStorage<Base>, public OwnFactories {
 public:
  using Own = DefinedStorage<Base>;
  explicit PythonDefined(CarrierClass carrier_class) : Own(carrier_class) {}

  [[nodiscard]] Ref<Carrier> new_like(Sequence<Scalar> values, const NewLikeOptions& options) const override {
    const InterpreterLock lock;
    if (!overrides(self(), "new_like")) return Own::new_like(values, options);
    nb::list list;
    for (const Scalar& value : values) list.append(from_scalar(value));
    return call_factory(*this, "new_like", list, factory_keywords(options.is_mutable, options.dtype, *this));
  }
  [[nodiscard]] Ref<Carrier> allocate_like(Index size, const AllocateOptions& options) const override {
    const InterpreterLock lock;
    if (!overrides(self(), "allocate_like")) return Own::allocate_like(size, options);
    return call_factory(*this, "allocate_like", nb::int_(size),
                        factory_keywords(options.is_mutable, options.dtype, *this));
  }
  void scatter(const Tensor& to_scatter, const Tensor& scatter_onto, const Layout& mapping,
               Index offset) override {
    const InterpreterLock lock;
    if (!overrides(self(), "scatter")) return Own::scatter(to_scatter, scatter_onto, mapping, offset);
    self().attr("scatter")(to_scatter, scatter_onto, mapping, offset);
  }
  [[nodiscard]] DLPackInfo dlpack_info() const override {
    const InterpreterLock lock;
    if (!overrides(self(), "dlpack_info")) return Own::dlpack_info();
    return to_dlpack_info(self().attr("dlpack_info")(), this->carrier_class().name());
  }

  [[nodiscard]] Ref<Carrier> own_new_like(Sequence<Scalar> values,
                                          const NewLikeOptions& options) const override {
    return Own::new_like(values, options);
  }
  [[nodiscard]] Ref<Carrier> own_allocate_like(Index size, const AllocateOptions& options) const override {
    return Own::allocate_like(size, options);
  }
  void own_scatter(const Tensor& to_scatter, const Tensor& scatter_onto, const Layout& mapping,
                   Index offset) override {
    Own::scatter(to_scatter, scatter_onto, mapping, offset);
  }

 protected:
  [[nodiscard]] Ref<Carrier> make_blank() const override {
    raise<TypeError>(this->carrier_class().name(), "a Python class is made by its constructor");
  }
  /// X11: `type(self)(slots, mutable=…, dtype=…)`.
  [[nodiscard]] Ref<Carrier> make_same(Index slots, const DefinedOptions& options) const override {
    const InterpreterLock lock;
    nb::dict keywords;
    keywords["mutable"] = options.is_mutable;
    keywords["dtype"] = from_dtype(*options.dtype);
    const nb::object made = nb::object(nb::borrow(self().type()))(slots, **keywords);
    auto* fresh = try_native<Carrier>(made);
    if (fresh == nullptr || fresh->carrier_class() != this->carrier_class())
      raise<TypeError>(this->carrier_class().name(),
                       "the constructor must make a carrier of the same exact class: got ",
                       python_type_name(made), "; override new_like and allocate_like where it cannot");
    return Ref<Carrier>(fresh);
  }

 private:
  [[nodiscard]] nb::handle self() const { return this->python_object(); }
};

/// Whether `carrier` is written in Python without a CarrierDefinition: then a bound base method was reached
/// by `super()` or for want of an override.
bool is_python(const Carrier& carrier);

/// `__init__` of Carrier and DependentCarrier: makes the object behind an instance of a Python class.
template <class Base>
void construct_python_carrier(nb::pointer_and_handle<Base> self, const nb::args& args,
                              const nb::kwargs& kwargs);

/// What nanobind makes room for: either of the two.
template <class Base>
class PythonCarrierRoom final : public PythonCarrier<Base> {
 public:
  using PythonCarrier<Base>::PythonCarrier;

 private:
  std::array<std::byte, sizeof(PythonDefined<Base>) - sizeof(Base)> room_;
};
static_assert(sizeof(PythonCarrierRoom<Carrier>) >= sizeof(PythonDefined<Carrier>));
static_assert(sizeof(PythonCarrierRoom<DependentCarrier>) >= sizeof(PythonDefined<DependentCarrier>));

}  // namespace orlop::bindings
