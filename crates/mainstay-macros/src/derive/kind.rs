/// What a derive macro makes of a struct, in the words of its messages.
pub(crate) struct Kind {
    /// With its article: "an actor".
    pub(crate) noun: &'static str,
    /// Without: "actor". It is the name of the attribute, too.
    pub(crate) word: &'static str,
    /// Why its fields have names.
    pub(crate) why_names: &'static str,
}
