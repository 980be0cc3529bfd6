"""`tvm.auto_scheduler`: search without a template, by Ansor's names, over the space generator `sketch`."""
