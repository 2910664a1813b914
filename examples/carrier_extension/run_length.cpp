// A carrier of one's own in C++: Float32 slots kept as runs of equal values, as a Python module of its own.
//
//   from run_length import RunLength
//   carrier = RunLength(1_000_000)
#include <nanobind/nanobind.h>

#include <map>

#include <orlop/extension/defined_carrier.hpp>
#include <orlop/extension/definition.hpp>

namespace nb = nanobind;
using orlop::Carrier;
using orlop::Index;
using orlop::Scalar;

namespace {

/// The slots from each key to the next have its value.
class RunLength final : public orlop::DefinedCarrier {
 public:
  Index slots = 0;
  std::map<Index, float> runs;

 protected:
  [[nodiscard]] orlop::Ref<Carrier> make_blank() const override { return orlop::make_ref<RunLength>(); }
};

class Runs final : public orlop::StorageProvider {
 public:
  [[nodiscard]] bool supports_dtype(const Carrier&, const orlop::DType& dtype) const override {
    return &dtype == &orlop::dtypes::Float32;
  }
  [[nodiscard]] Index physical_size(const Carrier& carrier) const override { return of(carrier).slots; }
  void allocate(Carrier& carrier, Index slots) const override {
    of(carrier).slots = slots;
    of(carrier).runs = {{0, 0.0F}};
  }
  void release(Carrier& carrier) const override { allocate(carrier, 0); }
  [[nodiscard]] Scalar read(const Carrier& carrier, Index index) const override {
    return Scalar(std::prev(of(carrier).runs.upper_bound(index))->second);
  }
  void write(Carrier& carrier, Index index, const Scalar& value) const override {
    std::map<Index, float>& runs = of(carrier).runs;
    const auto run = std::prev(runs.upper_bound(index));
    if (index + 1 < of(carrier).slots) runs.try_emplace(index + 1, run->second);  // the rest stays as it is
    runs.insert_or_assign(index, value.to_binary32());
    for (const Index start : {index + 1, index})  // equal neighbours become one run
      if (const auto found = runs.find(start);
          found != runs.begin() && found != runs.end() && found->second == std::prev(found)->second)
        runs.erase(found);
  }
  [[nodiscard]] bool elementwise_fallback() const override { return true; }

 private:
  static const RunLength& of(const Carrier& carrier) { return static_cast<const RunLength&>(carrier); }
  static RunLength& of(Carrier& carrier) { return static_cast<RunLength&>(carrier); }
};

}  // namespace

NB_MODULE(run_length, module) {
  nb::module_::import_("orlop._core");  // binds Carrier
  orlop::register_carrier_definition(orlop::carrier_class<RunLength>(),
                                     {.storage = std::make_shared<Runs>()});
  nb::class_<RunLength, Carrier>(module, "RunLength")
      .def("__init__",
           [](nb::pointer_and_handle<RunLength> self, Index slots) {
             orlop::construct_defined_at(self.p, slots, {.dtype = orlop::dtypes::Float32});
           })
      .def("runs", [](const RunLength& self) { return self.runs.size(); });
}
