"""The public names of TVM 0.18, as its sources have them: what stands in them without an underscore in front.

Homes are written as scripts write them. Attributes that TVM's objects have from C++ are those that its documentation
and its own programs use.
"""

from __future__ import annotations

TVM_NAMES: dict[str, str] = {
    "te": """
        any all min_value max_value trace exp erf tanh sigmoid log tan cos sin sqrt rsqrt floor ceil sinh cosh log2
        log10 asin asinh acos acosh atan atanh trunc abs round nearbyint power popcount fmod if_then_else isnan isfinite
        isinf div indexdiv indexmod truncdiv truncmod floordiv floormod comm_reducer min max sum Schedule Stage
        create_schedule SpecializedCondition AXIS_SEPARATOR TensorSlice Tensor decl_tensor_intrin tag_scope placeholder
        compute scan extern var size_var const thread_axis reduce_axis create_prim_func extern_primfunc PlaceholderOp
        ComputeOp TensorComputeOp ScanOp ExternOp HybridOp gradient hybrid schedule tensor operation tensor_intrin tag
        autodiff
    """,
    "te.Tensor": "op value_index shape dtype ndim axis name astype equal same_as",
    "te.TensorSlice": "tensor indices dtype asobject astype",
    "te.Operation": """
        name tag attrs axis reduce_axis body input_tensors num_outputs output same_as
    """,
    "te.Schedule": """
        stages outputs groups stage_map normalize create_group cache_read cache_write rfactor
        schedule_record primitive_record
    """,
    "te.Stage": """
        split fuse set_scope bind env_threads set_store_predicate compute_at compute_inline compute_root reorder tile
        vectorize tensorize unroll parallel pragma prefetch storage_align double_buffer rolling_buffer transform_layout
        op origin_op scope all_iter_vars leaf_iter_vars iter_var_attrs relations attach_type attach_ivar attach_stage
        group is_output
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
        Task create get_config args_to_workload template serialize_args deserialize_args ConfigSpace ConfigEntity
        attach_code_hash attach_code_hash_to_arg DispatchContext ApplyConfig ApplyHistoryBest FallbackContext
        clear_fallback_cache ApplyGraphBest register_topi_compute register_topi_schedule TaskExtractEnv get_workload
        extract_from_program extract_from_multiple_program task space dispatcher code_hash topi_integration
        relay_integration
    """,
    "autotvm.task.task": """
        serialize_args deserialize_args args_to_workload Task TaskTemplate MissingTask TASK_TABLE template create
        get_config FlopCalculationError compute_flop
    """,
    "autotvm.task.space": """
        TransformSpace VirtualAxis Axis SplitSpace SplitEntity ReorderSpace ReorderEntity AnnotateSpace AnnotateEntity
        OtherOptionSpace OtherOptionEntity ConfigSpace ConfigEntity FallbackConfigEntity InstantiationError get_factors
        get_pow2s
    """,
    "autotvm.task.dispatcher": """
        DispatchContext ApplyConfig ApplyHistoryBest FallbackContext clear_fallback_cache ApplyGraphBest
    """,
    "autotvm.task.Task": "name args kwargs config_space func flop target target_host workload instantiate",
    "autotvm.ConfigSpace": """
        space_map errors code_hash flop cost is_fallback axis reduce_axis define_split define_reorder define_annotate
        define_knob add_flop raise_error multi_filter valid get is_index_valid range_length dims subrange_length
        get_rand_index get_next_index sample_ints random_walk point2knob knob2point clear_cache
    """,
    "autotvm.ConfigEntity": """
        index errors code_hash flop cost is_fallback axis reduce_axis define_split define_reorder define_annotate
        define_knob add_flop raise_error multi_filter valid get_flatten_feature get_other_option to_json_dict
        from_json_dict
    """,
    "autotvm.task.space.FallbackConfigEntity": "is_fallback fallback_split fallback_with_reference_log",
    "autotvm.task.space.SplitEntity": "size apply",
    "autotvm.task.space.ReorderEntity": "perm apply",
    "autotvm.task.space.AnnotateEntity": "anns apply",
    "autotvm.task.space.OtherOptionEntity": "val",
    "autotvm.DispatchContext": "current query update warning_messages",
    "autotvm.apply_history_best": "load query update best_by_targetkey best_by_model",
    "autotvm.FallbackContext": "clear_cache query update memory",
    "autotvm.measure": """
        MeasureInput MeasureResult MeasureErrorNo measure_option create_measure_batch LocalBuilder LocalRunner RPCRunner
        default_module_loader request_remote measure measure_methods executor
    """,
    "autotvm.measure.measure": """
        MeasureInput MeasureResult MeasureErrorNo Builder Runner measure_option create_measure_batch
    """,
    "autotvm.measure.measure_methods": "BuildResult LocalBuilder LocalRunner RPCRunner set_cuda_target_arch",
    "autotvm.measure.measure.Builder": "timeout n_parallel build_kwargs task set_task build",
    "autotvm.measure.measure.Runner": "timeout n_parallel task set_task get_build_kwargs run",
    "autotvm.MeasureErrorNo": """
        NO_ERROR INSTANTIATION_ERROR COMPILE_HOST COMPILE_DEVICE RUNTIME_DEVICE WRONG_ANSWER BUILD_TIMEOUT RUN_TIMEOUT
        UNKNOWN_ERROR
    """,
    "autotvm.MeasureInput": "target task config",
    "autotvm.MeasureResult": "costs error_no all_cost timestamp",
    "autotvm.tuner": """
        callback GATuner GridSearchTuner RandomTuner Tuner XGBTuner DropletTuner tuner ga_tuner index_based_tuner
        xgboost_tuner droplet_tuner model_based_tuner sa_model_optimizer xgboost_cost_model metric
    """,
    "autotvm.tuner.Tuner": """
        param recorder task space best_config best_flops best_measure_pair best_iter error_ct_threshold ttl n_trial
        early_stopping has_next next_batch update tune reset load_history set_error_threshold
    """,
    "autotvm.tuner.GATuner": "pop_size elite_num mutation_prob genes scores elites visited",
    "autotvm.tuner.RandomTuner": "range_length index_offset visited_max begin_idx end_idx counter",
    "autotvm.tuner.XGBTuner": "tune load_history cost_model plan_size",
    "autotvm.callback": "log_to_file log_to_database Monitor progress_bar",
    "autotvm.callback.Monitor": "scores timestamps reset trial_scores trial_timestamps",
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
        compute_dag dispatcher feature loop_state measure measure_record relay_integration search_policy search_task
        task_scheduler utils workload_registry cost_model ComputeDAG LayoutRewriteOption get_shape_from_rewritten_layout
        RandomModel XGBModel ApplyHistoryBest ApplyHistoryBestOrSample DispatchContext LocalBuilder
        LocalRPCMeasureContext LocalRunner MeasureInput MeasureResult RPCRunner register_task_input_check_func
        RecordReader RecordToFile load_best_record load_records save_records extract_tasks is_auto_scheduler_enabled
        remove_index_check rewrite_compute_body rewrite_tensor_shape EmptyPolicy PreloadCustomSketchRule
        PreloadMeasuredStates SketchPolicy HardwareParams SearchTask TuningOptions auto_schedule create_task
        TaskScheduler make_workload_key register_workload
    """,
    "auto_scheduler.ComputeDAG": """
        tensors ops flop_ct init_state get_init_state apply_steps_from_state print_python_code_from_state
        infer_bound_from_state rewrite_layout_from_state workload_key
    """,
    "auto_scheduler.LayoutRewriteOption": """
        NO_REWRITE INSERT_TRANSFORM_STAGE REWRITE_FOR_PRE_TRANSFORMED get_target_default
    """,
    "auto_scheduler.SearchTask": """
        compute_dag workload_key desc target target_host hardware_params layout_rewrite_option task_input_names tune
        apply_best print_best
    """,
    "auto_scheduler.TuningOptions": """
        num_measure_trials early_stopping num_measures_per_round verbose builder runner measure_callbacks
    """,
    "auto_scheduler.HardwareParams": """
        num_cores vector_unit_bytes cache_line_bytes max_shared_memory_per_block max_local_memory_per_block
        max_threads_per_block max_vthread_extent warp_size
    """,
    "auto_scheduler.SketchPolicy": """
        DEFAULT_PARAMS search continue_search_one_round set_verbose generate_sketches sample_initial_population
        evolutionary_search
    """,
    "auto_scheduler.PreloadCustomSketchRule": "PASS APPLY APPLY_AND_SKIP_REST",
    "auto_scheduler.TaskScheduler": """
        tasks objective_func strategy load_log_file load_model_file alpha beta gamma backward_window_size callbacks
        task_cts task_best_cts task_costs_history best_costs cur_score dead_tasks task_tags flop_cts tune
    """,
    "auto_scheduler.XGBModel": "update update_from_file predict predict_stages save load",
    "auto_scheduler.RandomModel": "update predict",
    "auto_scheduler.ApplyHistoryBest": """
        load query update get_workload_entry best_by_targetkey best_by_model
    """,
    "auto_scheduler.RecordReader": "read_lines check_workload_key messages",
    "auto_scheduler.MeasureInput": "task state serialize deserialize",
    "auto_scheduler.MeasureResult": "costs error_no error_msg all_cost timestamp",
    "auto_scheduler.compute_dag": "ComputeDAG LayoutRewriteOption get_shape_from_rewritten_layout",
    "auto_scheduler.cost_model": "RandomModel PythonBasedModel XGBModel",
    "auto_scheduler.dispatcher": "DispatchContext ApplyHistoryBest ApplyHistoryBestOrSample FallbackContext",
    "auto_scheduler.loop_state": "Iterator Stage StateObject State",
    "auto_scheduler.loop_state.State": """
        state_object compute_dag stage_id_map stages stage_ops transform_steps bind parallel unroll vectorize fuse
        pragma reorder split follow_split follow_fused_split storage_align compute_at compute_inline compute_root
        cache_read cache_write rfactor copy ANNOTATION_TRANS_TABLE
    """,
    "auto_scheduler.loop_state.Stage": "op iters compute_at op_type COMPUTE_AT_TRANS_TABLE",
    "auto_scheduler.loop_state.Iterator": "name range iter_kind annotation",
    "auto_scheduler.measure": """
        BuildFunc MeasureCallback PythonBasedMeasureCallback MeasureInput BuildResult MeasureResult MeasureErrorNo
        recover_measure_input ProgramBuilder ProgramRunner ProgramMeasurer LocalBuilder LocalRunner RPCRunner
        LocalRPCMeasureContext register_task_input_check_func prepare_input_map prepare_runner_args
    """,
    "auto_scheduler.measure_record": """
        RecordToFile RecordReader load_record_from_string dump_record_to_string load_records save_records
        load_best_record distill_record_file
    """,
    "auto_scheduler.relay_integration": """
        extract_tasks is_auto_scheduler_enabled remove_index_check rewrite_compute_body rewrite_tensor_shape TracingMode
        TracingEnvironment auto_schedule_topi
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
    "tir.Schedule": """
        mod state trace func_working_on work_on copy seed fork_seed show get get_sref remove_rv sample_categorical
        sample_perfect_tile sample_partitioned_tile sample_compute_location get_block get_loops get_child_blocks
        get_producers get_consumers get_output_blocks merge fuse split loop_partition reorder reorder_block_iter_var
        add_unit_loop parallel vectorize bind unroll cache_read cache_write reindex_cache_read reindex_cache_write
        cache_inplace cache_index reindex read_at write_at compute_at reverse_compute_at compute_inline
        reverse_compute_inline decompose_reduction rfactor storage_align set_scope unsafe_set_dtype blockize tensorize
        annotate unannotate transform_layout transform_block_layout set_axis_separator decompose_padding
        can_decompose_padding pad_einsum rolling_buffer enter_postproc unsafe_hide_buffer_access
    """,
    "tir.schedule": """
        Schedule ScheduleError BlockRV LoopRV ExprRV RAND_VAR_TYPE Trace Instruction InstructionKind BlockScope DepKind
        Dependency StmtSRef ScheduleState ScheduleDebugMask analysis
    """,
}
