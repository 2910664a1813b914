// Descriptors, their queries, and the one transaction that publishes them.
#include "orlop/dtype/dtype.hpp"

#include "orlop/dtype/compound.hpp"
#include "registry.hpp"

namespace orlop::inline v0 {

namespace {

std::string checked_name(std::string name, std::string_view class_name) {
  if (name.empty()) raise<ValueError>(class_name, "name must be a non-empty str: got ''; name the dtype");
  return name;
}

const DTypeCategory* checked_supertype(CategoryRef supertype, std::string_view name) {
  if (!supertype)
    raise<TypeError>("SimpleDType", "supertype must be a DTypeCategory: dtype '", name,
                     "' got none; use one such as DType.Floating");
  return supertype.get();
}

Index checked_bits(Index bits, std::string_view name) {
  if (bits < 1)
    raise<ValueError>("SimpleDType", "dtype '", name, "' needs an exact positive bit width: got ", bits,
                      "; give bits as an int of at least 1");
  return bits;
}

}  // namespace

DType::DType(Kind kind, std::string name, const DTypeCategory* supertype, bool is_opaque_storage)
    : kind_(kind), is_opaque_storage_(is_opaque_storage), supertype_(supertype), name_(std::move(name)) {}

DType::~DType() = default;

std::vector<const DTypeCategory*> DType::supertypes() const {
  std::vector<const DTypeCategory*> above;
  for (const DTypeCategory* next = supertype_; next != nullptr; next = next->supertype())
    above.push_back(next);
  return above;
}

bool DType::is_subtype_of(const DType& other) const noexcept {
  for (const DType* next = this; next != nullptr; next = next->supertype())
    if (next == &other) return true;
  return false;
}

std::span<const Ref<const RepresentationRule>> DType::representation_rules() const noexcept { return {}; }

Structure DType::structure() const {
  // ref(supertype) nests inside each part's beginning; a loop over the chain keeps any depth off the stack.
  std::vector<const DType*> chain{this};
  Structure structure;
  structure.string("DType");
  for (const DTypeCategory* next = supertype_; next != nullptr; next = next->supertype()) {
    structure.open().string(next->name()).string("DType");
    chain.push_back(next);
  }
  structure.none();
  for (auto next = chain.rbegin(); next != chain.rend(); ++next) {
    (*next)->append_structure(structure);
    structure.append((*next)->extension_);
    if (*next != this) structure.close();
  }
  return structure;
}

std::string DType::to_string() const { return text(class_name(), "('", name_, "')"); }

std::vector<const DType*> DType::registered() { return detail::DTypeRegistry::instance().all<DType>(); }
const DType& DType::from_name(std::string_view name) {
  return detail::DTypeRegistry::instance().get<DType>(name, "DType");
}

DTypeCategory::DTypeCategory(std::string name, Options options)
    : DType(Kind::category, checked_name(std::move(name), "DTypeCategory"), options.supertype.get(),
            options.opaque_storage) {}

const DTypeCategory& DTypeCategory::make(std::string name, Options options) {
  return make_dtype<DTypeCategory>(std::move(name), options);
}

void DTypeCategory::append_structure(Structure& structure) const {
  structure.string("DTypeCategory").boolean(is_opaque_storage());
}

std::vector<const DTypeCategory*> DTypeCategory::registered() {
  return detail::DTypeRegistry::instance().all<DTypeCategory>();
}
const DTypeCategory& DTypeCategory::from_name(std::string_view name) {
  return detail::DTypeRegistry::instance().get<DTypeCategory>(name, "DTypeCategory");
}

SimpleDType::SimpleDType(std::string name, Options options)
    : DType(Kind::simple, name, checked_supertype(options.supertype, name)),
      bits_(checked_bits(options.bits, checked_name(std::move(name), "SimpleDType"))) {}

const SimpleDType& SimpleDType::make(std::string name, Options options) {
  return make_dtype<SimpleDType>(std::move(name), options);
}

void SimpleDType::append_structure(Structure& structure) const {
  structure.string("SimpleDType").integer(bits_);
}

std::vector<const SimpleDType*> SimpleDType::registered() {
  return detail::DTypeRegistry::instance().all<SimpleDType>();
}
const SimpleDType& SimpleDType::from_name(std::string_view name) {
  return detail::DTypeRegistry::instance().get<SimpleDType>(name, "SimpleDType");
}

const DType& publish(std::unique_ptr<DType> draft) {
  Structure extension = draft->structure_extension();
  return publish(std::move(draft), std::move(extension), nullptr);
}

const DType& publish(std::unique_ptr<DType> draft, Structure extension, _object* python_object) {
  draft->extension_ = std::move(extension);
  draft->set_python_object(python_object);
  if (dynamic_cast<const BlockScaledDType*>(draft.get()) != nullptr) {
    const Structure structure = draft->structure();
    detail::DTypeRegistry::instance().add(*draft, &structure);
  } else {
    detail::DTypeRegistry::instance().add(*draft, nullptr);
  }
  return *draft.release();  // published: it lives as long as the process
}

const DType& resolve_dtype(std::string_view name, const Structure& structure) {
  const DType* dtype = detail::DTypeRegistry::instance().find(name);
  if (dtype == nullptr)
    raise<LookupError>("dtype", "no dtype named '", name,
                       "' in this process: it must be registered again before its name is read");
  if (dtype->structure() != structure)
    raise<ValueError>("dtype", "'", name, "' has another structure here: ", dtype->structure(), " against ",
                      structure, "; register the same definition in both processes");
  return *dtype;
}

namespace detail {

DTypeRegistry& DTypeRegistry::instance() {
  static Immortal<DTypeRegistry> storage;
  static DTypeRegistry& registry = *std::construct_at(&storage.value);
  return registry;
}

void DTypeRegistry::add(const DType& dtype, const Structure* unique_structure) {
  const std::lock_guard lock(mutex_);
  if (by_name_.contains(dtype.name()))
    raise<ValueError>("dtype", "'", dtype.name(), "' is already registered; a dtype's name is used once");
  if (unique_structure != nullptr) {
    const auto known = by_structure_.find(*unique_structure);
    if (known != by_structure_.end())
      raise<ValueError>("dtype", "'", known->second->name(), "' already describes the structure given for '",
                        dtype.name(), "'; use that dtype");
  }
  in_order_.reserve(in_order_.size() + 1);
  const auto named = by_name_.emplace(dtype.name(), &dtype).first;
  try {
    if (unique_structure != nullptr) by_structure_.emplace(*unique_structure, &dtype);
  } catch (...) {
    by_name_.erase(named);
    throw;
  }
  in_order_.push_back(&dtype);
}

const DType* DTypeRegistry::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

}  // namespace detail

}  // namespace orlop::inline v0
