// The extension module orlop._core: one private module, filled layer by layer.
#include "support.hpp"

NB_MODULE(core, module) {
  using namespace orlop::bindings;
  orlop::detail::install_python_counting(
      {[](PyObject* object) noexcept { with_interpreter([object] { Py_INCREF(object); }); },
       [](PyObject* object) noexcept { with_interpreter([object] { Py_DECREF(object); }); }});
  install_error_translation();
  install_interpreter_end();
  install_interpreter_release();
  install_logging();
  bind_parallel(module);
  bind_dtype(module);
  bind_layout(module);
  bind_io(module);
  bind_plans(module);
  bind_carrier(module);
  bind_capabilities(module);
  bind_operation(module);
  bind_profiler(module);
  bind_tensor(module);
  bind_operation_definition(module);
  bind_interchange(module);
  bind_array_files(module);
  bind_functional(module);
  bind_views(module);
  bind_einops(module);
  bind_cpu(module);
  bind_friendly(module);
  bind_generic(module);
  bind_file_backed(module);
  bind_block_device(module);
  bind_block_device_testing(module);
  bind_metal(module);
  bind_movement(module);
  bind_await(module);
  bind_evictable(module);
  bind_tiled_evictable(module);
  bind_extension(module);
}

// What nanobind keeps of a module, our threads, counts and registries are those of the process: an import by
// another interpreter would take them from the first.
extern "C" NB_EXPORT PyObject* PyInit__core() {
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return PyInit_core();
  PyErr_SetString(
      PyExc_ImportError,
      "[orlop] a sub-interpreter cannot import the module: only the main interpreter can; use threads "
      "or processes");
  return nullptr;
}
