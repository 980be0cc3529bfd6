"""The modules of TVM 0.6 to 0.18 that scripts import, by their names below `tvm`."""

from __future__ import annotations

TVM_MODULES = """
    _api_internal _ffi _ffi.base _ffi.function _ffi.libinfo _ffi.ndarray _ffi.node _ffi.registry
    _ffi.runtime_ctypes _pyversion api arith arith.analyzer arith.int_set arith.iter_affine_map arith.pattern
    attrs auto_scheduler auto_scheduler.auto_schedule auto_scheduler.compute_dag auto_scheduler.cost_model
    auto_scheduler.cost_model.cost_model auto_scheduler.cost_model.xgb_model auto_scheduler.dispatcher
    auto_scheduler.feature auto_scheduler.loop_state auto_scheduler.measure auto_scheduler.measure_record
    auto_scheduler.relay_integration auto_scheduler.search_policy auto_scheduler.search_task
    auto_scheduler.task_scheduler auto_scheduler.testing auto_scheduler.testing.tune_onnx
    auto_scheduler.testing.tune_te auto_scheduler.utils auto_scheduler.workload_registry autodiff
    autotvm.database autotvm.env autotvm.feature autotvm.graph_tuner autotvm.graph_tuner.base_graph_tuner
    autotvm.graph_tuner.utils autotvm.measure autotvm.measure.executor autotvm.measure.local_executor
    autotvm.measure.measure autotvm.measure.measure_methods autotvm.record autotvm.task.code_hash
    autotvm.task.dispatcher autotvm.task.relay_integration autotvm.task.space autotvm.task.task
    autotvm.task.topi_integration autotvm.testing autotvm.testing.tune_relay autotvm.tophub autotvm.tuner
    autotvm.tuner.callback autotvm.tuner.droplet_tuner autotvm.tuner.droplet_turner autotvm.tuner.ga_tuner
    autotvm.tuner.gridsearch_tuner autotvm.tuner.index_based_tuner autotvm.tuner.metric
    autotvm.tuner.model_based_tuner autotvm.tuner.sa_model_optimizer autotvm.tuner.tuner
    autotvm.tuner.xgboost_cost_model autotvm.tuner.xgboost_tuner autotvm.util autotvm.utils build_config
    build_module codegen container contrib contrib.adreno_recording contrib.binutil contrib.cblas contrib.cc
    contrib.clang contrib.codegen_onnx contrib.composable_kernel contrib.coreml_runtime contrib.cu_graph
    contrib.cublas contrib.cublaslt contrib.cuda contrib.cuda_graph.cuda_graph_executor contrib.cudnn
    contrib.cusparse contrib.cutlass contrib.cutlass.build contrib.debugger contrib.debugger.debug_executor
    contrib.debugger.debug_runtime contrib.dlpack contrib.dnnl contrib.download contrib.emcc contrib.emscripten
    contrib.ethosu.cascader contrib.fbgemm contrib.gemmini contrib.graph_executor contrib.graph_runtime
    contrib.hexagon contrib.hexagon.build contrib.hexagon.session contrib.hipblas contrib.hipcc
    contrib.imagenet_classes contrib.libxsmm contrib.micro contrib.miopen contrib.mkl contrib.mkldnn contrib.mps
    contrib.msc contrib.msc.core contrib.mxnet contrib.ndk contrib.nnpack contrib.nvcc contrib.onnx contrib.peak
    contrib.pickle_memoize contrib.pipeline_executor contrib.pipeline_executor_build contrib.popen_pool
    contrib.random contrib.relay_viz contrib.rocblas contrib.rocm contrib.rpc contrib.sdaccel contrib.sort
    contrib.spirv contrib.stackvm contrib.tar contrib.target.coreml contrib.target.onnx contrib.target.vitis_ai
    contrib.tedd contrib.tf_op contrib.tflite_runtime contrib.thrust contrib.torch contrib.tvmjs contrib.util
    contrib.utils contrib.xcode datatype dlight dlight.cpu dlight.gpu dlpack driver driver.build_module
    driver.tvmc driver.tvmc.autotuner driver.tvmc.compiler driver.tvmc.model driver.tvmc.runner error exec
    exec.autotvm_log_editor exec.disco_worker exec.gpu_memory_bandwidth exec.measure_peak
    exec.microtvm_debug_shell exec.popen_worker exec.query_rpc_tracker exec.rpc_proxy exec.rpc_server
    exec.rpc_tracker expr expr_functor ffi hybrid instrument intrin ir ir.adt ir.affine_type ir.attrs ir.base
    ir.container ir.diagnostics ir.expr ir.function ir.global_info ir.global_var_supply ir.instrument
    ir.json_compact ir.memory_pools ir.module ir.op ir.supply ir.tensor_type ir.transform ir.type
    ir.type_relation ir.utils ir.worklist ir_functor ir_pass libinfo make meta_schedule meta_schedule.database
    meta_schedule.relay_integration meta_schedule.runner meta_schedule.space_generator
    meta_schedule.testing.te_workload meta_schedule.tune_tir micro micro.build micro.contrib
    micro.model_library_format micro.project micro.project_api micro.session micro.testing micro.testing.utils
    module name_supply ndarray operator parser registry relax relax.dpl relax.frontend.nn
    relax.frontend.torch relax.testing relax.transform relax.vm relay relay.analysis relay.backend
    relay.backend.interpreter relay.build_module relay.dataflow_pattern relay.expr relay.frontend
    relay.frontend.onnx relay.op relay.op.contrib.dnnl relay.op.nn relay.param_dict relay.quantize relay.testing
    relay.testing.resnet relay.transform rpc rpc.base rpc.client rpc.proxy rpc.server rpc.server_ios_launcher
    rpc.testing rpc.tracker runtime runtime.container runtime.device runtime.disco runtime.executor
    runtime.executor.aot_executor runtime.module runtime.name_transforms runtime.ndarray runtime.object
    runtime.object_generic runtime.packed_func runtime.params runtime.profiler_vm runtime.profiling
    runtime.relax_vm runtime.script_printer runtime.support runtime.vm rust schedule script script.diagnostics
    script.highlight script.intrin script.ir script.ir_builder script.ir_builder.tir script.parser
    script.parser.tir script.printer script.relax script.scope_handler script.special_stmt script.tir script.ty
    script.utils stmt support tag target target.adreno target.build_config target.codegen
    target.compilation_config target.datatype target.detect_target target.generic target.generic_func
    target.intrin target.tag target.target target.virtual_device target.x86 te te.autodiff te.hybrid
    te.hybrid.parser te.operation te.schedule te.tag te.tensor te.tensor_intrin tensor tensor_intrin testing
    testing.aot testing.attrs testing.auto_scheduler testing.autotvm testing.plugin testing.popen_pool
    testing.runner testing.tir testing.usmp testing.utils tir tir.analysis tir.analysis.analysis
    tir.block_dependence_info tir.block_scope tir.buffer tir.build tir.contrib tir.contrib.ethosu
    tir.data_layout tir.expr tir.function tir.generic tir.ir_builder tir.ir_pass tir.op tir.pipeline
    tir.schedule tir.schedule.analysis tir.schedule.block_scope tir.schedule.schedule tir.schedule.state
    tir.schedule.testing tir.schedule.trace tir.schedule.transform tir.sparse tir.stmt tir.stmt_functor
    tir.tensor_intrin tir.tensor_intrin.arm_cpu tir.tensor_intrin.cuda tir.tensor_intrin.dot_product_common
    tir.tensor_intrin.hexagon tir.tensor_intrin.rocm tir.tensor_intrin.x86 tir.transform tir.transform.transform
    tir.usmp tir.usmp.utils topi topi.adreno topi.argwhere topi.arm_cpu topi.arm_cpu.conv2d
    topi.arm_cpu.tensor_intrin topi.array_api topi.bifrost topi.broadcast topi.cpp topi.cuda topi.cuda.conv2d
    topi.cuda.injective topi.einsum topi.generic topi.generic.conv2d topi.generic.injective topi.generic.nn
    topi.gpu topi.hexagon topi.hls topi.image topi.index_put topi.intel_graphics topi.mali topi.math topi.nn
    topi.nn.batch_matmul topi.nn.conv2d topi.nn.conv2d_transpose topi.nn.dense topi.nn.depthwise_conv2d
    topi.nn.elemwise topi.nn.pad topi.nn.pooling topi.nn.softmax topi.nn.util topi.nn.utils
    topi.nn.winograd_util topi.random topi.reduction topi.riscv_cpu topi.rocm topi.scan topi.scatter
    topi.searchsorted topi.signal topi.slice_scatter topi.sort topi.sparse topi.tag topi.tensor topi.testing
    topi.testing.common topi.transform topi.unique topi.util topi.utils topi.vision topi.vision.ssd topi.x86
    topi.x86.binary_dense topi.x86.conv2d topi.x86.dense topi.x86.tensor_intrin topi.x86.utils topi_testing
    transform utils utils.roofline
"""
