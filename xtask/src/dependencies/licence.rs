//! SPDX expressions, as Cargo.toml has them: licences joined by AND, OR, WITH and brackets; old crates write `/` for OR.

/// Whether one may choose so that every licence that then holds is allowed.
pub fn is_allowed(expression: &str, allowed: &[String]) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let verdict = either(&mut rest, allowed)?;
    match rest.first() {
        None => Ok(verdict),
        Some(word) => Err(format!("nobody expects \"{word}\" there")),
    }
}

fn either(words: &mut &[&str], allowed: &[String]) -> Result<bool, String> {
    let mut verdict = both(words, allowed)?;
    while take(words, "OR") {
        verdict |= both(words, allowed)?;
    }
    Ok(verdict)
}

fn both(words: &mut &[&str], allowed: &[String]) -> Result<bool, String> {
    let mut verdict = one(words, allowed)?;
    while take(words, "AND") {
        verdict &= one(words, allowed)?;
    }
    Ok(verdict)
}

fn one(words: &mut &[&str], allowed: &[String]) -> Result<bool, String> {
    if take(words, "(") {
        let verdict = either(words, allowed)?;
        return if take(words, ")") { Ok(verdict) } else { Err("a bracket is not closed".to_owned()) };
    }
    let mut name = licence(words)?;
    if take(words, "WITH") {
        name = format!("{name} WITH {}", licence(words)?);
    }
    Ok(allowed.contains(&name))
}

fn licence(words: &mut &[&str]) -> Result<String, String> {
    match words.split_first() {
        Some((word, rest)) if !["AND", "OR", "WITH", "(", ")"].contains(word) => {
            *words = rest;
            Ok((*word).to_owned())
        }
        _ => Err("a licence is missing".to_owned()),
    }
}

fn take(words: &mut &[&str], wanted: &str) -> bool {
    match words.split_first() {
        Some((word, rest)) if *word == wanted => {
            *words = rest;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_judged_as_it_binds() {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        for (expression, verdict) in [
            ("MIT", Ok(true)),
            ("GPL-3.0-only", Ok(false)),
            ("MIT OR GPL-3.0-only", Ok(true)),
            ("MIT AND GPL-3.0-only", Ok(false)),
            ("GPL-3.0-only OR MIT AND Apache-2.0", Ok(true)),
            ("(GPL-3.0-only OR MIT) AND Unicode-3.0", Ok(true)),
            ("(MIT OR Apache-2.0) AND GPL-3.0-only", Ok(false)),
            ("MIT/Apache-2.0", Ok(true)),
            ("Apache-2.0 WITH LLVM-exception", Ok(true)),
            ("MIT WITH LLVM-exception", Ok(false)),
            ("MIT OR", Err("a licence is missing")),
            ("", Err("a licence is missing")),
            ("(MIT", Err("a bracket is not closed")),
            ("MIT Apache-2.0", Err("nobody expects \"Apache-2.0\" there")),
        ] {
            assert_eq!(is_allowed(expression, &allowed), verdict.map_err(str::to_owned), "{expression}");
        }
    }
}
