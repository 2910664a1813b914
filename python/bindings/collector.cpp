// The cycle collector's view of counted objects.
#include "collector.hpp"

#include <cstddef>
#include <vector>

#include "support.hpp"

namespace orlop::bindings {

namespace {

// The collector must see each held Python object once per counted reference. An object without a Python
// object is passed through only while its count is one: then whoever reached it is its sole owner. The
// stack is explicit, so a graph may be 100,000 nodes deep.
class Traversal final : public ReferenceVisitor {
 public:
  Traversal(visitproc visit, void* argument) : visit_(visit), argument_(argument) {}

  void visit(const Object* held) override {
    if (PyObject* owner = held->python_object()) {
      if (result_ == 0) result_ = visit_(owner, argument_);
    } else if (held->reference_count() == 1) {
      stack_.push_back(held);
    }
  }

  void visit_python(PyObject* held) override {
    if (result_ == 0) result_ = visit_(held, argument_);
  }

  int run(const Object* root) {
    root->visit_references(*this);
    while (result_ == 0 && !stack_.empty()) {
      const Object* next = stack_.back();
      stack_.pop_back();
      next->visit_references(*this);
    }
    return result_;
  }

 private:
  visitproc visit_;
  void* argument_;
  int result_ = 0;
  std::vector<const Object*> stack_;
};

// The place of the instance's __dict__, or null. A positive offset is nanobind's: a dict that a Python class
// adds has none, and Python's own slots see to it.
PyObject** instance_dict(PyObject* self) {
  const Py_ssize_t offset = Py_TYPE(self)->tp_dictoffset;
  return offset > 0 ? reinterpret_cast<PyObject**>(reinterpret_cast<std::byte*>(self) + offset) : nullptr;
}

int traverse(PyObject* self, visitproc visit, void* arg) {  // Py_VISIT wants these two names
  Py_VISIT(Py_TYPE(self));
  if (PyObject** dict = instance_dict(self)) Py_VISIT(*dict);
  if (!nb::inst_ready(self)) return 0;
  return Traversal(visit, arg).run(nb::inst_ptr<Object>(self));
}

int clear(PyObject* self) {
  if (PyObject** dict = instance_dict(self)) Py_CLEAR(*dict);
  if (nb::inst_ready(self)) nb::inst_ptr<Object>(self)->drop_references();
  return 0;
}

}  // namespace

PyType_Slot collector_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                                 {Py_tp_clear, reinterpret_cast<void*>(clear)},
                                 {0, nullptr}};

}  // namespace orlop::bindings
