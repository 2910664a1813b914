// Representation rules across the language border: see representation_rule.hpp.
#include "representation_rule.hpp"

#include <memory>
#include <unordered_map>
#include <utility>

#include "dtype_model.hpp"
#include "dtype_structure.hpp"

namespace orlop::bindings {

namespace {

ContextConversion context_conversion;

// The memory of a Python rule: a native rule, or, for a class written in Python, its recorded structure. Both
// are null until the constructor is through.
struct RuleHolder {
  PyObject_HEAD const RepresentationRule* rule;  // counted
  Structure* structure;                          // owned
};
PyTypeObject* rule_holder_type = nullptr;

RuleHolder* rule_holder(nb::handle self) {
  if (!is_instance(self, rule_holder_type))
    raise<TypeError>("rule", "expected a RepresentationRule: got ", python_type_name(self));
  return reinterpret_cast<RuleHolder*>(self.ptr());
}

// The Python objects of native rules, while somebody has them; guarded by the interpreter's lock.
std::unordered_map<const RepresentationRule*, PyObject*> python_rules;

void destroy_rule_holder(PyObject* self) {
  auto* holder = reinterpret_cast<RuleHolder*>(self);
  delete holder->structure;
  if (holder->rule != nullptr) {
    const auto known = python_rules.find(holder->rule);
    if (known != python_rules.end() && known->second == self) python_rules.erase(known);
    holder->rule->dec_ref();
  }
  free_holder(self);
}

// A Python context seen from C++.
class PythonContext final : public RepresentationValidationContext {
 public:
  explicit PythonContext(nb::handle context)
      : context_(nb::borrow(context)),
        logical_dtype_(to_dtype(nb::object(context.attr("logical_dtype")), "logical")),
        adjacent_layouts_(context.attr("adjacent_layouts")),
        level_shapes_(context.attr("level_shapes")) {
    for (const auto& dtype : to_items(context.attr("storage_dtypes"), "context", "storage_dtypes"))
      storage_dtypes_.push_back(&to_dtype(dtype, "storage"));
  }

  [[nodiscard]] const nb::object& python() const { return context_; }
  [[nodiscard]] const DType& logical_dtype() const override { return logical_dtype_; }
  [[nodiscard]] std::span<const DTypeRef> storage_dtypes() const override { return storage_dtypes_; }
  [[nodiscard]] Index adjacent_count() const override {
    return static_cast<Index>(nb::len(adjacent_layouts_));
  }
  [[nodiscard]] Index level_size(Index level) const override {
    return to_index(nb::object(nb::object(level_shapes_[level]).attr("size")), "context", "a level's size");
  }
  [[nodiscard]] std::optional<Index> uniform_preimage_extent(Index edge) const override {
    const nb::object extent = nb::object(adjacent_layouts_[edge])
                                  .attr("uniform_preimage_extent")(nb::object(level_shapes_[edge + 1]));
    if (extent.is_none()) return std::nullopt;
    return to_index(extent, "context", "a uniform preimage extent");
  }

 private:
  nb::object context_;
  const DType& logical_dtype_;
  nb::object adjacent_layouts_, level_shapes_;
  std::vector<DTypeRef> storage_dtypes_;
};

nb::object from_context(const RepresentationValidationContext& context) {
  if (const auto* known = dynamic_cast<const PythonContext*>(&context)) return known->python();
  if (!context_conversion)
    raise<RuntimeError>("RepresentationRule", "a rule written in Python cannot see this native context");
  return context_conversion(context);
}

// A rule whose class is written in Python. It holds its Python object until the interpreter exits.
class PythonRule final : public RepresentationRule {
 public:
  PythonRule(nb::object self, Structure structure)
      : self_(std::move(self)), structure_(std::move(structure)) {}
  PythonRule(const PythonRule&) = delete;
  PythonRule& operator=(const PythonRule&) = delete;
  ~PythonRule() override {
    const InterpreterLock lock;
    self_.reset();
  }

  [[nodiscard]] nb::object python() const {
    if (!self_.is_valid())
      raise<RuntimeError>("RepresentationRule", "a rule written in Python is gone at exit");
    return self_;
  }
  void forget_python() const { self_.reset(); }
  void validate(const RepresentationValidationContext& context) const override {
    const InterpreterLock lock;
    python().attr("validate")(from_context(context));
  }
  [[nodiscard]] Structure structure() const override { return structure_; }

 private:
  mutable nb::object self_;
  Structure structure_;
};

bool is_final_rule(nb::handle self) {
  const RuleHolder* holder = rule_holder(self);
  return holder->rule != nullptr || holder->structure != nullptr;
}

void require_open_rule(nb::handle self) {
  if (is_final_rule(self))
    raise<AttributeError>("RepresentationRule", "rules are immutable; make another one");
}

void adopt_rule(nb::handle self, const Ref<const RepresentationRule>& rule) {
  python_rules.insert_or_assign(rule.get(), self.ptr());
  rule_holder(self)->rule = Ref(rule).detach();
}

}  // namespace

Ref<const RepresentationRule> to_rule(nb::handle value, std::string_view what) {
  if (!is_instance(value, rule_holder_type))
    raise<TypeError>(what, "representation_rules must hold RepresentationRule objects: got ",
                     python_type_name(value));
  if (!is_final_rule(value))
    raise<ValueError>(what, "a representation rule is not finalized; its constructor must return first");
  const RuleHolder* holder = rule_holder(value);
  if (holder->rule != nullptr) return Ref<const RepresentationRule>(holder->rule);
  return make_ref<const PythonRule>(nb::borrow(value), *holder->structure);
}

nb::object from_rule(const Ref<const RepresentationRule>& rule) {
  if (const auto* written = dynamic_cast<const PythonRule*>(rule.get())) return written->python();
  const bool is_level_extent = dynamic_cast<const LevelExtent*>(rule.get()) != nullptr;
  nb::object object = allocate_instance(is_level_extent ? model().level_extent : model().rule);
  const auto known = python_rules.find(rule.get());
  // Without references it is about to go, and a weak reference's callback asks.
  if (known != python_rules.end() && Py_REFCNT(known->second) > 0) return nb::borrow(known->second);
  adopt_rule(object, rule);
  return object;
}

void forget_python_rules() {
  context_conversion = nullptr;
  for (const DType* dtype : DType::registered())
    for (const auto& rule : dtype->representation_rules())
      if (const auto* written = dynamic_cast<const PythonRule*>(rule.get())) written->forget_python();
}

nb::object make_validation_context(const DType& logical_dtype, std::span<const DTypeRef> storage_dtypes,
                                   const nb::tuple& placement_layouts, const nb::tuple& adjacent_layouts,
                                   const nb::tuple& level_shapes) {
  return model().context(from_dtype(logical_dtype), from_dtypes(storage_dtypes), placement_layouts,
                         adjacent_layouts, level_shapes);
}

void install_context_conversion(ContextConversion conversion) { context_conversion = std::move(conversion); }

namespace {

void initialize_level_extent(nb::handle self, nb::handle level, nb::handle extent) {
  constexpr std::string_view what = "LevelExtent";
  require_open_rule(self);
  const Index exact_level = to_exact_int(level, what, "level");
  if (exact_level < 0) raise<ValueError>(what, "level must be at least 0: got ", exact_level);
  adopt_rule(self, make_ref<const LevelExtent>(exact_level, to_extent(extent, what, "extent", true)));
}

void finalize_rule(nb::handle self, nb::handle extension) {
  require_open_rule(self);
  const nb::object type = nb::borrow(nb::handle(self.type()));
  const std::string name = to_text(nb::str(type.attr("__qualname__")));
  auto structure = std::make_unique<Structure>();
  structure->string(to_text(nb::str(type.attr("__module__")))).string(name);
  structure->open().append(to_extension(extension, name)).close();
  require_open_rule(self);  // the conversion may have run anything
  rule_holder(self)->structure = structure.release();
}

const LevelExtent& finished_level_extent(nb::handle self) {
  const auto* rule = dynamic_cast<const LevelExtent*>(rule_holder(self)->rule);
  if (rule == nullptr)
    raise<TypeError>("LevelExtent", "expected a LevelExtent: got ", python_type_name(self));
  return *rule;
}

void validate_rule(nb::handle self, nb::handle context) {
  const auto rule = to_rule(self, "RepresentationRule");
  if (dynamic_cast<const PythonRule*>(rule.get()) != nullptr)
    raise<NotImplementedError>(python_type_name(self), "validate(context) is for the rule's class to define");
  rule->validate(PythonContext(context));
}

}  // namespace

void bind_representation_rules(nb::module_& native) {
  rule_holder_type = make_holder_type("orlop._core._dtype.Rule", sizeof(RuleHolder), destroy_rule_holder,
                                      "Holds the native rule.");
  native.attr("Rule") = nb::handle(reinterpret_cast<PyObject*>(rule_holder_type));
  native.def("initialize_level_extent", initialize_level_extent, any, any, any);
  native.def("finalize_rule", finalize_rule, any, any);
  native.def("is_final_rule", is_final_rule, any);
  native.def("rule_structure", [](nb::handle self) {
    return from_structure(to_rule(self, "RepresentationRule")->structure());
  });
  native.def("validate_rule", validate_rule, any, any);
  native.def("level", [](nb::handle self) { return finished_level_extent(self).level(); });
  native.def("extent", [](nb::handle self) { return from_extent(finished_level_extent(self).extent()); });
}

}  // namespace orlop::bindings
