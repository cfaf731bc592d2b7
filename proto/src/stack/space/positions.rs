//! Positions from a file: one line for each node, `name,x,y` or `name,x,y,z`, in metres.

/// Reads names and positions. The error says which line is wrong and why.
pub(crate) fn read(text: &str) -> Result<Vec<(String, [f64; 3])>, String> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || (index == 0 && line.starts_with("name,")) {
            continue;
        }
        let wrong = |what: String| format!("line {}: {what}", index + 1);
        let mut parts = line.split(',').map(str::trim);
        let name = parts.next().unwrap_or_default().to_owned();
        let mut place = [0.0; 3];
        let mut count = 0;
        for part in parts {
            let number = part.parse::<f64>().ok().filter(|number| number.is_finite());
            let number =
                number.ok_or_else(|| wrong(format!("'{part}' of '{name}' is no place")))?;
            let slot = place.get_mut(count);
            *slot.ok_or_else(|| wrong(format!("'{name}' has more than x, y and z")))? = number;
            count += 1;
        }
        if count < 2 {
            return Err(wrong(format!("'{name}' has no x and y")));
        }
        found.push((name, place));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_names_and_places() {
        let text = "name,x,y\n# the hill\nhill,1,2.5\n\nvalley , -3,4, 100\n";
        let expected =
            vec![("hill".to_owned(), [1.0, 2.5, 0.0]), ("valley".to_owned(), [-3.0, 4.0, 100.0])];
        assert_eq!(read(text), Ok(expected));
    }

    #[test]
    fn what_is_no_place_is_told_with_its_line() {
        for (text, what) in [
            ("a,0,0\nb,nan,1", "line 2: 'nan' of 'b' is no place"),
            ("a,0,inf", "line 1: 'inf' of 'a' is no place"),
            ("a,7", "line 1: 'a' has no x and y"),
            ("a,1,2,3,4", "line 1: 'a' has more than x, y and z"),
            ("a,0,0\nb,east,1", "line 2: 'east' of 'b' is no place"),
        ] {
            assert_eq!(read(text), Err(what.to_owned()));
        }
    }
}
