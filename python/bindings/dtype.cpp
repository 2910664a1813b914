// The native side of orlop.carriers.dtype: descriptors, rules, level values and the storage dtype helpers.
#include "dtype.hpp"

#include <memory>
#include <unordered_map>

#include "orlop/storage/storage_dtype.hpp"
#include "record.hpp"

namespace orlop::bindings {

PyTypeObject* dtype_holder_type = nullptr;

namespace {

// What orlop.carriers.dtype hands over when it is loaded. The module _dtype owns these references (see
// install_model), so they end with the interpreter's modules and not before.
struct PythonModel {
  nb::object category, simple, compound, block_scaled, rule, level_extent, context, whole;
};
PythonModel python_model;
ContextConversion context_conversion;

const PythonModel& model() {
  if (!python_model.whole.is_valid()) nb::module_::import_("orlop.carriers.dtype");
  if (!python_model.whole.is_valid())
    raise<RuntimeError>("dtype", "orlop.carriers.dtype is not loaded, or no more");
  return python_model;
}

// Items of one extension and of one structure, so that no nest of shared tuples exhausts memory.
constexpr std::size_t extension_limit = 100'000;
constexpr std::size_t structure_limit = 10 * extension_limit;

// --- Structure trees ---

std::string_view utf8(nb::handle string) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(string.ptr(), &size);
  if (data == nullptr) throw_python_error();
  return {data, static_cast<std::size_t>(size)};
}

// Walks nested exact tuples with a stack of its own; `append_leaf` takes everything else.
template <class AppendLeaf>
Structure flatten(nb::handle root, std::size_t limit, std::string_view what, AppendLeaf append_leaf) {
  Structure structure;
  std::vector<std::pair<nb::object, Py_ssize_t>> stack;
  stack.emplace_back(nb::borrow(root), 0);
  while (true) {
    if (structure.items().size() > limit)
      raise<ValueError>(what, "a structure has at most ", limit, " items here; make it smaller");
    auto& [tuple, position] = stack.back();
    if (position == PyTuple_GET_SIZE(tuple.ptr())) {
      stack.pop_back();
      if (stack.empty()) return structure;
      structure.close();
      continue;
    }
    const nb::handle item = PyTuple_GET_ITEM(tuple.ptr(), position++);
    if (PyTuple_CheckExact(item.ptr())) {
      structure.open();
      stack.emplace_back(nb::borrow(item), 0);
    } else {
      append_leaf(structure, item);
    }
  }
}

// The user's extension (M111): exact str, int, float, bool, None, Whole.
Structure to_extension(nb::handle value, std::string_view what) {
  if (!PyTuple_CheckExact(value.ptr()))
    raise<TypeError>(what, "structure_extension() must return a tuple: got ", python_type_name(value));
  return flatten(value, extension_limit, what, [&](Structure& structure, nb::handle leaf) {
    if (leaf.is_none()) {
      structure.none();
    } else if (PyBool_Check(leaf.ptr())) {
      structure.boolean(leaf.ptr() == Py_True);
    } else if (PyUnicode_CheckExact(leaf.ptr())) {
      structure.string(utf8(leaf));
    } else if (PyLong_CheckExact(leaf.ptr())) {
      structure.leaf(text("int:", utf8(nb::str(leaf))));
    } else if (PyFloat_CheckExact(leaf.ptr())) {
      structure.leaf(text("float:", utf8(nb::object(leaf.attr("hex")()))));
    } else if (leaf.is(model().whole)) {
      structure.whole();
    } else {
      raise<TypeError>(
          what, "structure_extension() holds only exact strings, ints, floats, bools, None and Whole: got ",
          python_type_name(leaf));
    }
  });
}

// A structure that came back from from_structure, perhaps through a pickle.
Structure to_structure(nb::handle value, std::string_view what) {
  if (!PyTuple_CheckExact(value.ptr()))
    raise<TypeError>(what, "a structure must be a tuple: got ", python_type_name(value));
  return flatten(value, structure_limit, what, [&](Structure& structure, nb::handle leaf) {
    if (!PyUnicode_CheckExact(leaf.ptr()))
      raise<TypeError>(what, "a structure holds only tuples and strings: got ", python_type_name(leaf));
    structure.leaf(std::string(utf8(leaf)));
  });
}

nb::object from_structure(const Structure& structure) {
  std::vector<nb::list> stack(1);
  for (const Structure::Item& item : structure.items()) {
    if (item.token == Structure::Token::open) {
      stack.emplace_back();
    } else if (item.token == Structure::Token::close) {
      const nb::tuple closed(stack.back());
      stack.pop_back();
      stack.back().append(closed);
    } else {
      stack.back().append(nb::str(item.leaf.data(), item.leaf.size()));
    }
  }
  return nb::tuple(stack.back());
}

// --- Holders ---

bool is_instance(nb::handle value, PyTypeObject* type) { return PyObject_TypeCheck(value.ptr(), type) != 0; }
bool is_instance(nb::handle value, nb::handle type) {
  return is_instance(value, reinterpret_cast<PyTypeObject*>(type.ptr()));
}

DTypeHolder* dtype_holder(nb::handle self) {
  if (!is_instance(self, dtype_holder_type))
    raise<TypeError>("dtype", "expected a DType: got ", python_type_name(self));
  return reinterpret_cast<DTypeHolder*>(self.ptr());
}

PyObject* allocate(PyTypeObject* type, PyObject*, PyObject*) { return type->tp_alloc(type, 0); }

void free_holder(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

void destroy_dtype_holder(PyObject* self) {
  auto* holder = reinterpret_cast<DTypeHolder*>(self);
  delete holder->draft;
  if (holder->published != nullptr && holder->published->python_object() == self)
    holder->published->set_python_object(nullptr);
  free_holder(self);
}

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

PyTypeObject* make_holder_type(const char* name, std::size_t size, destructor destroy,
                               const char* documentation) {
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(allocate)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                         {Py_tp_doc, const_cast<char*>(documentation)},
                         {0, nullptr}};
  PyType_Spec spec{name, static_cast<int>(size), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (type == nullptr) throw_python_error();
  return reinterpret_cast<PyTypeObject*>(type);
}

nb::object allocate_instance(nb::handle type) {
  auto* python_type = reinterpret_cast<PyTypeObject*>(type.ptr());
  nb::object object = nb::steal(python_type->tp_alloc(python_type, 0));
  if (!object.is_valid()) throw_python_error();
  return object;
}

// --- Arguments ---

std::string to_name(nb::handle name, std::string_view what) {
  if (!PyUnicode_Check(name.ptr()))
    raise<ValueError>(what, "name must be a non-empty str: got ", python_type_name(name));
  std::string exact(utf8(name));
  if (exact.empty()) raise<ValueError>(what, "name must be a non-empty str: got ''");
  return exact;
}

CategoryRef to_category(nb::handle value, std::string_view what) {
  const DType* dtype = try_dtype(value);
  if (dtype == nullptr || !dtype->is_category())
    raise<TypeError>(what, "supertype must be a DTypeCategory: got ",
                     dtype == nullptr ? python_type_name(value) : dtype->to_string());
  return static_cast<const DTypeCategory*>(dtype);
}

CategoryRef to_optional_category(nb::handle value, std::string_view what) {
  return value.is_none() ? CategoryRef() : to_category(value, what);
}

SimpleRef to_simple(nb::handle value, std::string_view what, std::string_view name) {
  const DType* dtype = try_dtype(value);
  if (dtype == nullptr || !dtype->is_simple())
    raise<TypeError>(what, name, " must be a SimpleDType: got ",
                     dtype == nullptr ? python_type_name(value) : dtype->to_string());
  return static_cast<const SimpleDType*>(dtype);
}

// Every item of an iterable, or TypeError.
std::vector<nb::object> to_items(nb::handle iterable, std::string_view what, std::string_view name) {
  const nb::object iterator = to_iterator(iterable, what, name);
  std::vector<nb::object> items;
  while (PyObject* item = PyIter_Next(iterator.ptr())) items.push_back(nb::steal(item));
  if (PyErr_Occurred() != nullptr) throw_python_error();
  return items;
}

BlockExtent to_extent(nb::handle value, std::string_view what, std::string_view name, bool exact) {
  if (value.is(model().whole)) return Whole;
  if (exact ? !PyLong_CheckExact(value.ptr()) : !PyIndex_Check(value.ptr()) || PyBool_Check(value.ptr()))
    raise<TypeError>(what, name, " must be an int or Whole: got ", python_type_name(value));
  const auto count = to_index(value, what, name);
  if (count < 1) raise<ValueError>(what, name, " must be at least 1, or Whole: got ", count);
  return count;
}

nb::object from_extent(BlockExtent extent) {
  return extent.is_whole() ? nb::borrow(model().whole) : nb::object(nb::int_(extent.count()));
}

// --- Rules ---

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

void adopt_rule(nb::handle self, const Ref<const RepresentationRule>& rule) {
  python_rules.insert_or_assign(rule.get(), self.ptr());
  rule_holder(self)->rule = Ref(rule).detach();
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

void initialize_level_extent(nb::handle self, nb::handle level, nb::handle extent) {
  constexpr std::string_view what = "LevelExtent";
  require_open_rule(self);
  if (!PyLong_CheckExact(level.ptr()))
    raise<TypeError>(what, "level must be an int: got ", python_type_name(level));
  const auto exact_level = to_index(level, what, "level");
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

// --- Descriptors ---

void require_instance(nb::handle self, nb::handle type, std::string_view what) {
  if (!is_instance(self, type))
    raise<TypeError>(what, "__init__ needs an instance of ", what, ": got ", python_type_name(self));
  if (dtype_holder(self)->published != nullptr)
    raise<AttributeError>(what, dtype_holder(self)->published->to_string(),
                          " is immutable; it is initialized once");
}

template <class T>
void install_draft(nb::handle self, std::string name, typename T::Options options) {
  auto draft = std::make_unique<orlop::detail::Draft<T>>(std::move(name), std::move(options));
  DTypeHolder* holder = dtype_holder(self);
  delete holder->draft;
  holder->draft = draft.release();
  holder->is_base_initialized = true;
}

void initialize_dtype(nb::handle self, nb::handle name, nb::handle supertype) {
  require_instance(self, reinterpret_cast<PyObject*>(dtype_holder_type), "DType");
  to_name(name, "DType");
  to_optional_category(supertype, "DType");
  dtype_holder(self)->is_base_initialized = true;
}

void initialize_category(nb::handle self, nb::handle name, nb::handle supertype, nb::handle opaque_storage) {
  constexpr std::string_view what = "DTypeCategory";
  require_instance(self, model().category, what);
  std::string exact_name = to_name(name, what);
  const CategoryRef above = to_optional_category(supertype, what);
  install_draft<DTypeCategory>(
      self, std::move(exact_name),
      {.supertype = above, .opaque_storage = to_bool(opaque_storage, what, "opaque_storage")});
}

void initialize_simple(nb::handle self, nb::handle name, nb::handle bits, nb::handle supertype) {
  constexpr std::string_view what = "SimpleDType";
  require_instance(self, model().simple, what);
  const CategoryRef above = to_category(supertype, what);
  std::string exact_name = to_name(name, what);
  if (PyBool_Check(bits.ptr()) || !PyIndex_Check(bits.ptr()))
    raise<ValueError>(what, "dtype '", exact_name, "' needs an exact positive bit width: got ",
                      python_type_name(bits), "; give bits as an int of at least 1");
  install_draft<SimpleDType>(
      self, std::move(exact_name),
      {.bits = to_index<ValueError>(bits, what, "an exact positive bit width"), .supertype = above});
}

void initialize_compound(nb::handle self, nb::handle name, nb::handle supertype, nb::handle simple_types,
                         nb::handle rules) {
  constexpr std::string_view what = "CompoundDType";
  require_instance(self, model().compound, what);
  std::string exact_name = to_name(name, what);
  CompoundDType::Options options{.supertype = to_optional_category(supertype, what), .simple_types = {}};
  const auto planes = to_items(simple_types, what, "simple_types");
  if (planes.empty()) raise<ValueError>(what, "'", exact_name, "' needs at least one simple dtype: got none");
  for (const auto& plane : planes)
    options.simple_types.push_back(to_simple(plane, what, "each of simple_types"));
  for (const auto& rule : to_items(rules, what, "representation_rules"))
    options.representation_rules.push_back(to_rule(rule, what));
  // Draft<CompoundDType> is what a Python subclass is made of; C++ derives instead.
  install_draft<CompoundDType>(self, std::move(exact_name), std::move(options));
}

void initialize_block_scaled(nb::handle self, nb::handle name, nb::handle element, nb::handle levels) {
  constexpr std::string_view what = "BlockScaledDType";
  require_instance(self, model().block_scaled, what);
  BlockScaledDType::Options options{.element = to_simple(element, what, "element"), .levels = {}};
  for (const auto& level : to_items(levels, what, "levels")) {
    if (!nb::isinstance<Level>(level))
      raise<TypeError>(what, "levels must hold Level values: got ", python_type_name(level));
    options.levels.push_back(nb::cast<const Level&>(level));
  }
  // The name is judged after the levels, with them: one that is no str reads as the empty one.
  std::string exact_name(PyUnicode_Check(name.ptr()) ? utf8(name) : "");
  install_draft<BlockScaledDType>(self, std::move(exact_name), std::move(options));
}

// Each class of the model that `self` belongs to must have run its __init__ (M108).
void check_draft(nb::handle self) {
  const std::string type_name = python_type_name(self);
  const auto require = [&](bool is_initialized, std::string_view base) {
    if (!is_initialized)
      raise<TypeError>(type_name, "the constructor did not initialize its ", base,
                       " base; call super().__init__");
  };
  require(is_instance(self, dtype_holder_type), "DType");
  const DTypeHolder* holder = dtype_holder(self);
  require(holder->published == nullptr && holder->is_base_initialized, "DType");
  const bool is_category = is_instance(self, model().category), is_simple = is_instance(self, model().simple),
             is_compound = is_instance(self, model().compound);
  if (int{is_category} + int{is_simple} + int{is_compound} != 1)
    raise<TypeError>(
        type_name,
        "a dtype is a category, a simple or a compound dtype: this class is none or several; extend "
        "one of DTypeCategory, SimpleDType, CompoundDType and BlockScaledDType");
  const DType* draft = holder->draft;
  if (is_category) require(draft != nullptr && draft->is_category(), "category");
  if (is_simple) require(draft != nullptr && draft->is_simple(), "simple");
  if (is_compound) require(draft != nullptr && draft->is_compound(), "compound");
  if (is_instance(self, model().block_scaled))
    require(dynamic_cast<const BlockScaledDType*>(draft) != nullptr, "block-scaled");
}

void publish_dtype(nb::handle self, nb::handle extension) {
  Structure structure = to_extension(extension, python_type_name(self));
  check_draft(self);  // structure_extension() may have run anything
  DTypeHolder* holder = dtype_holder(self);
  std::unique_ptr<DType> draft(std::exchange(holder->draft, nullptr));
  const DType& dtype = publish(std::move(draft), std::move(structure), self.ptr());
  holder->published = &dtype;
  Py_INCREF(self.ptr());  // given back by drop_python_objects
}

void discard_draft(nb::handle self) {
  if (!is_instance(self, dtype_holder_type)) return;
  DTypeHolder* holder = dtype_holder(self);
  delete std::exchange(holder->draft, nullptr);
  holder->is_base_initialized = false;
}

// The descriptor behind `self`, published or under construction.
template <class T = DType>
const T& described(nb::handle self) {
  const DTypeHolder* holder = dtype_holder(self);
  const DType* dtype = holder->published != nullptr ? holder->published : holder->draft;
  if (dtype == nullptr) raise_not_finalized();
  const auto* match = dynamic_cast<const T*>(dtype);
  if (match == nullptr) raise<TypeError>("dtype", dtype->to_string(), " has no such property");
  return *match;
}

template <class Range>
nb::tuple from_dtypes(const Range& dtypes) {
  nb::list list;
  for (const auto& dtype : dtypes) list.append(from_dtype(*dtype));
  return nb::tuple(list);
}

nb::object from_name(nb::handle type, nb::handle name) {
  if (PyType_Check(type.ptr()) == 0)
    raise<TypeError>("dtype", "expected a class: got ", python_type_name(type));
  const std::string type_name = to_text(type.attr("__name__"));
  if (!PyUnicode_Check(name.ptr()))
    raise<TypeError>(text(type_name, ".from_name"), "name must be a str: got ", python_type_name(name));
  if (!is_text(name))
    raise<LookupError>(text(type_name, ".from_name"), "No Orlop dtype named '", to_text(name),
                       "'; a name has no lone surrogate");
  nb::object dtype = from_dtype(DType::from_name(utf8(name)));
  if (!is_instance(dtype, type))
    raise<LookupError>(text(type_name, ".from_name"), "'", utf8(name), "' is not a ", type_name,
                       " descriptor; ask the class it belongs to, or DType");
  return dtype;
}

nb::handle python_class(const DType& dtype) {
  if (dtype.is_category()) return model().category;
  if (dtype.is_simple()) return model().simple;
  return dynamic_cast<const BlockScaledDType*>(&dtype) != nullptr ? model().block_scaled : model().compound;
}

// --- Values of levels ---

void bind_level(nb::module_& module) {
  nb::class_<Level> level(
      module, "Level",
      "One level of scales: each `scale` covers `block` coordinates of the level below (M203).");
  level
      .def(
          "__init__",
          [](Level* self, nb::handle scale, nb::handle block) {
            const SimpleRef scale_dtype = to_simple(scale, "Level", "scale");
            new (self) Level(scale_dtype, to_extent(block, "Level", "block", false));
          },
          "scale"_a.none(), "block"_a.none(),
          "scale: a SimpleDType (TypeError). block: Whole or an int (TypeError) of at least 1 (ValueError).")
      .def_prop_ro(
          "scale", [](const Level& self) { return self.scale; }, "The SimpleDType of the scales.")
      .def_prop_ro(
          "block", [](const Level& self) { return from_extent(self.block); }, "An int, or Whole.")
      .def("is_whole", &Level::is_whole, "Whether one scale covers everything below.");
  make_record(level, "orlop.carriers.dtype", {"scale", "block"});
}

void bind_symbolic_bits(nb::module_& module) {
  nb::class_<SymbolicBits> bits(module, "SymbolicBits",
                                "Bits per element where one scale serves a whole tensor: constant + "
                                "whole_scale_bits / element count (M203).");
  bits.def(
          "__init__",
          [](SymbolicBits* self, nb::handle constant, nb::handle whole_scale_bits) {
            const double exact = to_scalar(constant, "SymbolicBits", "constant").to_binary64();
            new (self) SymbolicBits{exact, to_index(whole_scale_bits, "SymbolicBits", "whole_scale_bits")};
          },
          "constant"_a.none(), "whole_scale_bits"_a.none())
      .def_ro("constant", &SymbolicBits::constant, "Bits that do not depend on the element count.")
      .def_ro("whole_scale_bits", &SymbolicBits::whole_scale_bits, "Bits of the one scale.")
      .def(
          "evaluate",
          [](const SymbolicBits& self, nb::handle element_count) {
            return self.evaluate(to_index(element_count, "SymbolicBits.evaluate", "element_count"));
          },
          "element_count"_a.none(),
          "Bits per element of a tensor of `element_count` elements, an int (TypeError) of at least 1 "
          "(ValueError).");
  make_record(bits, "orlop.carriers.dtype", {"constant", "whole_scale_bits"});
}

// --- Storage dtype helpers ---

nb::object validate_storage(nb::handle dtype, std::string_view carrier, nb::handle accepted) {
  const DType& candidate = to_dtype(dtype, carrier);
  std::vector<const DType*> descriptors;
  for (const auto& one : to_items(accepted, carrier, "accepted"))
    descriptors.push_back(&to_dtype(one, "accepted"));
  validate_storage_dtype(candidate, carrier, descriptors);
  return nb::borrow(dtype);
}

nb::object zero_of(nb::handle dtype) {
  const auto zero = storage_zero(to_dtype(dtype, "storage_zero"));
  return zero ? from_scalar(*zero) : nb::none();
}

// --- The module ---

void install_model(nb::module_ native, nb::type_object category, nb::type_object simple,
                   nb::type_object compound, nb::type_object block_scaled, nb::type_object rule,
                   nb::type_object level_extent, nb::type_object context, nb::object whole) {
  if (python_model.whole.is_valid()) raise<RuntimeError>("dtype", "orlop.carriers.dtype is loaded once");
  python_model = {category, simple, compound, block_scaled, rule, level_extent, context, whole};
  native.attr("model") = nb::capsule(&python_model, [](void*) noexcept { python_model = {}; });
}

// At exit the registry lets go of its Python objects; each is forgotten when its last user is.
void drop_python_objects() {
  static bool is_done = false;
  if (std::exchange(is_done, true)) return;
  context_conversion = nullptr;
  for (const DType* dtype : DType::registered()) {
    for (const auto& rule : dtype->representation_rules())
      if (const auto* written = dynamic_cast<const PythonRule*>(rule.get())) written->forget_python();
    if (PyObject* object = dtype->python_object()) Py_DECREF(object);
  }
}

const auto any = nb::arg().none();  // an argument that may be None

void bind_construction(nb::module_& module) {
  module.def("install_model", install_model);
  module.def("initialize_dtype", initialize_dtype, any, any, any);
  module.def("initialize_category", initialize_category, any, any, any, any);
  module.def("initialize_simple", initialize_simple, any, any, any, any);
  module.def("initialize_compound", initialize_compound, any, any, any, any, any);
  module.def("initialize_block_scaled", initialize_block_scaled, any, any, any, any);
  module.def("check_draft", check_draft, any);
  module.def("publish", publish_dtype, any, any);
  module.def("discard_draft", discard_draft, any);
  module.def("is_published", [](nb::handle self) { return dtype_holder(self)->published != nullptr; });
  module.def("builtins", [] { return from_dtypes(builtin_dtypes()); });
  module.def("registered", [] { return from_dtypes(DType::registered()); });
  module.def("from_name", from_name, any, any);
  module.def(
      "resolve",
      [](nb::handle name, nb::handle structure) {
        if (!PyUnicode_Check(name.ptr()))
          raise<TypeError>("dtype", "name must be a str: got ", python_type_name(name));
        return from_dtype(resolve_dtype(utf8(name), to_structure(structure, "dtype")));
      },
      any, any);
}

void bind_queries(nb::module_& module) {
  module.def("name", [](nb::handle self) { return described(self).name(); });
  module.def("supertype", [](nb::handle self) { return CategoryRef(described(self).supertype()); });
  module.def("supertypes", [](nb::handle self) { return from_dtypes(described(self).supertypes()); });
  module.def("is_category", [](nb::handle self) { return described(self).is_category(); });
  module.def("is_simple", [](nb::handle self) { return described(self).is_simple(); });
  module.def("is_compound", [](nb::handle self) { return described(self).is_compound(); });
  module.def("is_opaque_storage", [](nb::handle self) { return described(self).is_opaque_storage(); });
  module.def(
      "is_subtype_of",
      [](nb::handle self, nb::handle other) {
        return described(self).is_subtype_of(to_dtype(other, "is_subtype_of"));
      },
      any, any);
  module.def("representation_rules", [](nb::handle self) {
    nb::list rules;
    for (const auto& rule : described(self).representation_rules()) rules.append(from_rule(rule));
    return nb::tuple(rules);
  });
  module.def("structure", [](nb::handle self) {
    const DType* dtype = dtype_holder(self)->published;
    if (dtype == nullptr) raise_not_finalized();
    return from_structure(dtype->structure());
  });
  module.def("bits", [](nb::handle self) { return described<SimpleDType>(self).bits(); });
  module.def("simple_types",
             [](nb::handle self) { return from_dtypes(described<CompoundDType>(self).simple_types()); });
  module.def("num_carriers", [](nb::handle self) { return described<CompoundDType>(self).num_carriers(); });
  module.def("element",
             [](nb::handle self) { return from_dtype(described<BlockScaledDType>(self).element()); });
  module.def("levels", [](nb::handle self) {
    nb::list levels;
    for (const Level& level : described<BlockScaledDType>(self).levels()) levels.append(nb::cast(level));
    return nb::tuple(levels);
  });
  module.def("num_axes", [](nb::handle self) { return described<BlockScaledDType>(self).num_axes(); });
  module.def("bits_per_element", [](nb::handle self) {
    return std::visit([](const auto& bits) { return nb::cast(bits); },
                      described<BlockScaledDType>(self).bits_per_element());
  });
}

void bind_rules(nb::module_& module) {
  module.def("initialize_level_extent", initialize_level_extent, any, any, any);
  module.def("finalize_rule", finalize_rule, any, any);
  module.def("is_final_rule", is_final_rule, any);
  module.def("rule_structure", [](nb::handle self) {
    return from_structure(to_rule(self, "RepresentationRule")->structure());
  });
  module.def("validate_rule", validate_rule, any, any);
  module.def("level", [](nb::handle self) { return finished_level_extent(self).level(); });
  module.def("extent", [](nb::handle self) { return from_extent(finished_level_extent(self).extent()); });
}

}  // namespace

void raise_not_finalized() {
  raise<ValueError>(
      "dtype",
      "this DType is not finalized: its constructor failed or has not returned; use a registered one");
}

PyObject* make_python_dtype(const DType& dtype) {
  const nb::object object = allocate_instance(python_class(dtype));
  // Loading the model may have made it meanwhile.
  if (PyObject* known = known_python_dtype(dtype)) return nb::borrow(known).release().ptr();
  dtype_holder(object)->published = &dtype;
  dtype.set_python_object(object.ptr());
  Py_INCREF(object.ptr());
  return nb::object(object).release().ptr();
}

nb::object make_validation_context(const DType& logical_dtype, std::span<const DTypeRef> storage_dtypes,
                                   const nb::tuple& placement_layouts, const nb::tuple& adjacent_layouts,
                                   const nb::tuple& level_shapes) {
  return model().context(from_dtype(logical_dtype), from_dtypes(storage_dtypes), placement_layouts,
                         adjacent_layouts, level_shapes);
}

void install_context_conversion(ContextConversion conversion) { context_conversion = std::move(conversion); }

void bind_dtype(nb::module_& module) {
  nb::module_ native = module.def_submodule("_dtype", "What orlop.carriers.dtype is made of.");
  dtype_holder_type = make_holder_type("orlop._core._dtype.Descriptor", sizeof(DTypeHolder),
                                       destroy_dtype_holder, "Holds the native descriptor.");
  rule_holder_type = make_holder_type("orlop._core._dtype.Rule", sizeof(RuleHolder), destroy_rule_holder,
                                      "Holds the native rule.");
  native.attr("Descriptor") = nb::handle(reinterpret_cast<PyObject*>(dtype_holder_type));
  native.attr("Rule") = nb::handle(reinterpret_cast<PyObject*>(rule_holder_type));
  bind_construction(native);
  bind_queries(native);
  bind_rules(native);
  bind_level(native);
  bind_symbolic_bits(native);
  native.def("validate_storage_dtype", validate_storage, any, nb::arg(), any);
  native.def("storage_zero", zero_of, any);
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(drop_python_objects));
}

}  // namespace orlop::bindings
