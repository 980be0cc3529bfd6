"""Results of Kernel Tuner and KTT as recorded spaces."""
