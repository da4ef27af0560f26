use super::form::{Form, Raw};
use super::value::Value;

/// A setting of `T`: its name, what it may be, and how it is read and written. [`setting!`](crate::setting) writes one for a
/// field.
///
/// To be correct:
/// - `get` gives values of the form alone, also where code has set the field;
/// - `get` gives what `set` has been given, unless the setting has no meaning beside the rest of `T`: then `set` changes
///   nothing, and the setting is refused with its place.
pub struct Key<T: 'static> {
    /// Within its section, with dots where it has parts: `breaker.failures_max`.
    pub name: &'static str,
    /// What it may be.
    pub form: Form,
    /// The value that is in force.
    pub get: fn(&T) -> Value,
    /// Takes a value of the form; others are ignored.
    pub set: fn(&mut T, Value),
}

impl<T> Key<T> {
    /// Takes what was written.
    ///
    /// # Errors
    /// What is wrong and what is allowed; `name` is the key with its section.
    pub(crate) fn write(&self, target: &mut T, name: &str, raw: &Raw) -> Result<(), String> {
        let value = read(&self.form, name, raw)?;
        (self.set)(target, value);
        Ok(())
    }
}

/// Reads what was written in a form.
///
/// # Errors
/// What is wrong and what is allowed.
pub(crate) fn read(form: &Form, name: &str, raw: &Raw) -> Result<Value, String> {
    form.read(raw).ok_or_else(|| format!("{name} is {}: give {}", raw.describe(), form.allowed()))
}

/// A [`Key`](crate::settings::Key) whose value is one field (`field` or `outer.field`): its name, its [`Form`](crate::settings::Form), the field.
///
/// ```
/// # use mainstay_node::setting;
/// # use mainstay_node::settings::Key;
/// use std::time::Duration;
///
/// struct Shop {
///     page_size: usize,
///     patience: Duration,
///     basket_max: Option<u64>,
///     greeting: String,
///     is_open: bool,
/// }
///
/// const KEYS: &[Key<Shop>] = &[
///     setting!("page_size", Count(1..=1000) as usize, page_size), // numbers and sizes say the type of the field
///     setting!("patience", Duration(Duration::from_millis(1)..=Duration::from_secs(60)), patience),
///     setting!("basket_max", Limit(1..=10_000) or none as Count, basket_max), // or "none"
///     setting!("greeting", Text, greeting),
///     setting!("is_open", Flag, is_open),
/// ];
/// assert_eq!(KEYS.len(), 5);
/// ```
///
/// Optional sizes are `BytesLimit(..) or none as Bytes`, optional lengths of time `DurationLimit(..) or none as Duration`. What is not
/// a field as it stands is a [`Key`](crate::settings::Key) written out.
#[macro_export]
macro_rules! setting {
    ($name:literal, Duration($range:expr), $($field:ident).+) => {
        $crate::settings::Key {
            name: $name,
            form: $crate::settings::Form::Duration($range),
            get: |target| $crate::settings::Value::Duration(target.$($field).+),
            set: |target, value| {
                if let $crate::settings::Value::Duration(duration) = value {
                    target.$($field).+ = duration;
                }
            },
        }
    };
    // A number or a size; the bounds of all of them fit into 32 bits or the field has 64.
    ($name:literal, $form:ident($range:expr) as $ty:ty, $($field:ident).+) => {
        $crate::settings::Key {
            name: $name,
            form: $crate::settings::Form::$form($range),
            get: |target| $crate::settings::Value::$form(target.$($field).+ as u64),
            set: |target, value| {
                if let $crate::settings::Value::$form(number) = value {
                    target.$($field).+ = <$ty>::try_from(number).unwrap_or(<$ty>::MAX);
                }
            },
        }
    };
    ($name:literal, $form:ident, $($field:ident).+) => {
        $crate::settings::Key {
            name: $name,
            form: $crate::settings::Form::$form,
            get: |target| $crate::settings::Value::$form(target.$($field).+.clone()),
            set: |target, value| {
                if let $crate::settings::Value::$form(value) = value {
                    target.$($field).+ = value;
                }
            },
        }
    };
    // A limit, which may be none.
    ($name:literal, $form:ident($range:expr) or none as $shown:ident, $($field:ident).+) => {
        $crate::settings::Key {
            name: $name,
            form: $crate::settings::Form::$form($range),
            get: |target| match target.$($field).+ {
                Some(number) => $crate::settings::Value::$shown(number),
                None => $crate::settings::Value::None,
            },
            set: |target, value| match value {
                $crate::settings::Value::$shown(number) => target.$($field).+ = Some(number),
                $crate::settings::Value::None => target.$($field).+ = None,
                _ => {}
            },
        }
    };
}
