"""The public names of the modules of TVM 0.18, as its sources have them: those without an underscore in front."""

from __future__ import annotations

TVM_NAMES: dict[str, str] = {
    "te": """
        any all min_value max_value trace exp erf tanh sigmoid log tan cos sin sqrt rsqrt floor ceil sinh cosh
        log2 log10 asin asinh acos acosh atan atanh trunc abs round nearbyint power popcount fmod if_then_else
        isnan isfinite isinf div indexdiv indexmod truncdiv truncmod floordiv floormod comm_reducer min max sum
        Schedule Stage create_schedule SpecializedCondition AXIS_SEPARATOR TensorSlice Tensor decl_tensor_intrin
        tag_scope placeholder compute scan extern var size_var const thread_axis reduce_axis create_prim_func
        extern_primfunc PlaceholderOp ComputeOp TensorComputeOp ScanOp ExternOp HybridOp gradient hybrid
        schedule tensor operation tensor_intrin tag autodiff
    """,
    "te.schedule": """
        create_schedule Schedule Stage SpecializedCondition Split Fuse Singleton InferBound ScheduleOps
        AutoInlineElemWise AutoInlineBroadcast AutoInlineInjective
    """,
    "autotvm": """
        database feature measure record task tuner utils env tophub graph_tuner measure_option MeasureInput
        MeasureResult MeasureErrorNo LocalBuilder LocalRunner RPCRunner callback get_config create ConfigSpace
        ConfigEntity register_topi_compute register_topi_schedule template DispatchContext FallbackContext
        apply_history_best apply_graph_best GLOBAL_SCOPE
    """,
    "autotvm.task": """
        Task create get_config args_to_workload template serialize_args deserialize_args ConfigSpace
        ConfigEntity attach_code_hash attach_code_hash_to_arg DispatchContext ApplyConfig ApplyHistoryBest
        FallbackContext clear_fallback_cache ApplyGraphBest register_topi_compute register_topi_schedule
        TaskExtractEnv get_workload extract_from_program extract_from_multiple_program task space dispatcher
        code_hash topi_integration relay_integration
    """,
    "autotvm.task.task": """
        serialize_args deserialize_args args_to_workload Task TaskTemplate MissingTask TASK_TABLE template
        create get_config FlopCalculationError compute_flop
    """,
    "autotvm.task.space": """
        TransformSpace VirtualAxis Axis SplitSpace SplitEntity ReorderSpace ReorderEntity AnnotateSpace
        AnnotateEntity OtherOptionSpace OtherOptionEntity ConfigSpace ConfigEntity FallbackConfigEntity
        InstantiationError get_factors get_pow2s
    """,
    "autotvm.task.dispatcher": """
        DispatchContext ApplyConfig ApplyHistoryBest FallbackContext clear_fallback_cache ApplyGraphBest
    """,
    "autotvm.measure": """
        MeasureInput MeasureResult MeasureErrorNo measure_option create_measure_batch LocalBuilder LocalRunner
        RPCRunner default_module_loader request_remote measure measure_methods executor
    """,
    "autotvm.measure.measure": """
        MeasureInput MeasureResult MeasureErrorNo Builder Runner measure_option create_measure_batch
    """,
    "autotvm.measure.measure_methods": "BuildResult LocalBuilder LocalRunner RPCRunner set_cuda_target_arch",
    "autotvm.tuner": """
        callback GATuner GridSearchTuner RandomTuner Tuner XGBTuner DropletTuner tuner ga_tuner
        index_based_tuner xgboost_tuner droplet_tuner model_based_tuner sa_model_optimizer xgboost_cost_model
        metric
    """,
    "autotvm.callback": "log_to_file log_to_database Monitor progress_bar",
    "autotvm.record": """
        measure_str_key encode decode load_from_buffer load_from_file split_workload pick_best ApplyHistoryBest
        AUTOTVM_LOG_VERSION
    """,
    "autotvm.utils": """
        EmptyContext get_rank sample_ints pool_map get_func_name get_const_int get_const_tuple SI_PREFIXES
        format_si_prefix
    """,
    "autotvm.env": "GLOBAL_SCOPE AutotvmGlobalScope reset_global_scope",
    "auto_scheduler": """
        compute_dag dispatcher feature loop_state measure measure_record relay_integration search_policy
        search_task task_scheduler utils workload_registry cost_model ComputeDAG LayoutRewriteOption
        get_shape_from_rewritten_layout RandomModel XGBModel ApplyHistoryBest ApplyHistoryBestOrSample
        DispatchContext LocalBuilder LocalRPCMeasureContext LocalRunner MeasureInput MeasureResult RPCRunner
        register_task_input_check_func RecordReader RecordToFile load_best_record load_records save_records
        extract_tasks is_auto_scheduler_enabled remove_index_check rewrite_compute_body rewrite_tensor_shape
        EmptyPolicy PreloadCustomSketchRule PreloadMeasuredStates SketchPolicy HardwareParams SearchTask
        TuningOptions auto_schedule create_task TaskScheduler make_workload_key register_workload
    """,
    "auto_scheduler.compute_dag": "ComputeDAG LayoutRewriteOption get_shape_from_rewritten_layout",
    "auto_scheduler.cost_model": "RandomModel PythonBasedModel XGBModel",
    "auto_scheduler.dispatcher": "DispatchContext ApplyHistoryBest ApplyHistoryBestOrSample FallbackContext",
    "auto_scheduler.loop_state": "Iterator Stage StateObject State",
    "auto_scheduler.measure": """
        BuildFunc MeasureCallback PythonBasedMeasureCallback MeasureInput BuildResult MeasureResult
        MeasureErrorNo recover_measure_input ProgramBuilder ProgramRunner ProgramMeasurer LocalBuilder
        LocalRunner RPCRunner LocalRPCMeasureContext register_task_input_check_func prepare_input_map
        prepare_runner_args
    """,
    "auto_scheduler.measure_record": """
        RecordToFile RecordReader load_record_from_string dump_record_to_string load_records save_records
        load_best_record distill_record_file
    """,
    "auto_scheduler.relay_integration": """
        extract_tasks is_auto_scheduler_enabled remove_index_check rewrite_compute_body rewrite_tensor_shape
        TracingMode TracingEnvironment auto_schedule_topi
    """,
    "auto_scheduler.search_policy": """
        SearchCallback PreloadMeasuredStates PreloadCustomSketchRule SearchPolicy EmptyPolicy SketchPolicy
    """,
    "auto_scheduler.search_task": """
        HardwareParams TuningOptions SearchTask create_task auto_schedule register_task_input_buffer
        get_task_input_buffer TASK_INPUT_BUFFER_TABLE
    """,
    "auto_scheduler.task_scheduler": """
        TaskScheduler TaskSchedulerCallback PrintTableInfo LogEstimatedLatency make_search_policies
        derive_similarity_tag
    """,
    "auto_scheduler.workload_registry": """
        register_workload register_workload_tensors make_workload_key workload_key_to_tensors
        serialize_workload_registry_entry deserialize_workload_registry_entry save_workload_func_registry
        load_workload_func_registry WORKLOAD_FUNC_REGISTRY
    """,
    "auto_scheduler.utils": """
        decode_workload_key calc_workload_dis_factor get_func_name get_const_int get_const_tuple list_to_tuple
        serialize_args deserialize_args
    """,
    "tir.schedule": """
        Schedule ScheduleError BlockRV LoopRV ExprRV RAND_VAR_TYPE Trace Instruction InstructionKind BlockScope
        DepKind Dependency StmtSRef ScheduleState ScheduleDebugMask analysis
    """,
}
