def test_a_plugin_keeps_a_name_that_its_module_registers_when_it_is_imported() -> None:
    table = NameTable()
    table.add("template", "json", "json:dumps", owner="plugin acme")
    table.add("template", "json", json.dumps, owner="json")
    assert table.claim("template", "json").owner == "plugin acme"
    assert table.claim("template", "json").load() is json.dumps
