use super::form::{Form, Raw};
use super::value::Value;

/// A setting of `T`: its name, what it means, what it may be, and how it is read and written.
pub(crate) struct Key<T: 'static> {
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    pub(crate) get: fn(&T) -> Value,
    /// Called with values of the form alone; others are ignored.
    pub(crate) set: fn(&mut T, Value),
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

/// A key whose value is one field (`field` or `outer.field`), with a conversion between the two.
macro_rules! key {
    ($name:literal, Duration($range:expr), $($field:ident).+) => {
        $crate::settings::key::Key {
            name: $name,
            form: $crate::settings::form::Form::Duration($range),
            get: |target| $crate::settings::value::Value::Duration(target.$($field).+),
            set: |target, value| {
                if let $crate::settings::value::Value::Duration(duration) = value {
                    target.$($field).+ = duration;
                }
            },
        }
    };
    // A number or a size; the bounds of all of them fit into 32 bits or the field has 64.
    ($name:literal, $form:ident($range:expr) as $ty:ty, $($field:ident).+) => {
        $crate::settings::key::Key {
            name: $name,
            form: $crate::settings::form::Form::$form($range),
            get: |target| $crate::settings::value::Value::$form(target.$($field).+ as u64),
            set: |target, value| {
                if let $crate::settings::value::Value::$form(number) = value {
                    target.$($field).+ = <$ty>::try_from(number).unwrap_or(<$ty>::MAX);
                }
            },
        }
    };
    // A limit, which may be none.
    ($name:literal, $form:ident($range:expr) or none as $shown:ident, $($field:ident).+) => {
        $crate::settings::key::Key {
            name: $name,
            form: $crate::settings::form::Form::$form($range),
            get: |target| match target.$($field).+ {
                Some(number) => $crate::settings::value::Value::$shown(number),
                None => $crate::settings::value::Value::None,
            },
            set: |target, value| match value {
                $crate::settings::value::Value::$shown(number) => target.$($field).+ = Some(number),
                $crate::settings::value::Value::None => target.$($field).+ = None,
                _ => {}
            },
        }
    };
}

pub(crate) use key;
