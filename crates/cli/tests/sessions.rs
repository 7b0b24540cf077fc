//! What a person types and sees. The sessions are in `cmd/`; `TRYCMD=overwrite cargo test -p carrick` writes them anew.

#[test]
fn sessions() {
    trycmd::TestCases::new().env("COLUMNS", "80").case("tests/cmd/*.trycmd");
}
