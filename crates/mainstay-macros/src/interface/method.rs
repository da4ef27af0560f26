use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt as _;
use syn::{Attribute, Block, FnArg, LitStr, ReturnType, Signature, TraitItemFn, Type};

use super::argument::{self, Argument};
use super::refuse::Refusals;
use super::wire_name;

/// One method of an interface.
pub(crate) struct Method {
    pub(super) attributes: Vec<Attribute>,
    pub(super) name: Ident,
    /// True for `&mut self`.
    pub(super) is_exclusive: bool,
    pub(super) arguments: Vec<Argument>,
    pub(super) output: Type,
    /// What it does where a type does not implement it.
    pub(super) body: Option<Block>,
    pub(super) settings: Settings,
}

/// What `#[method(..)]` says.
#[derive(Default)]
pub(super) struct Settings {
    /// The name on the wire, if it is not that of the method.
    pub(super) name: Option<String>,
    /// Whether a call may be carried out twice without harm.
    pub(super) is_repeatable: bool,
}

impl Method {
    /// Reads a method; `None` if there is a refusal.
    pub(super) fn read(function: &TraitItemFn, refusals: &mut Refusals) -> Option<Self> {
        let signature = &function.sig;
        if signature.asyncness.is_none() {
            refusals.add(
                signature.fn_token,
                format!(
                    "a method of an interface is async, because it may run elsewhere: write `async fn {}`",
                    signature.ident
                ),
            );
        }
        refuse_taken(&signature.ident, refusals);
        refuse_generics(signature, refusals);
        let odd = [signature.constness.map(|token| token.span), signature.unsafety.map(|token| token.span)];
        for (span, word) in odd.into_iter().zip(["const", "unsafe"]) {
            if let Some(span) = span {
                let token = Ident::new(word, span);
                refusals.add(&token, format!("a method of an interface cannot be `{word}`: remove it"));
            }
        }
        if let Some(abi) = &signature.abi {
            refusals.add(abi, "a method of an interface cannot be `extern`: remove it");
        }
        let is_exclusive = receiver(signature, refusals);
        let arguments = signature.inputs.iter().filter_map(|input| match input {
            FnArg::Receiver(_) => None,
            FnArg::Typed(argument) => Argument::read(argument, refusals),
        });
        let arguments: Vec<_> = arguments.collect();
        argument::refuse_same(&arguments, refusals);
        let settings = settings(function, is_exclusive, refusals);
        let output = output(signature, refusals);
        Some(Self {
            attributes: function.attrs.iter().filter(|attribute| !is_setting(attribute)).cloned().collect(),
            name: signature.ident.clone(),
            is_exclusive: is_exclusive?,
            arguments,
            output: output?,
            body: function.default.clone(),
            settings,
        })
    }

    /// The name by which other processes know it.
    pub(super) fn wire_name(&self) -> String {
        self.settings.name.clone().unwrap_or_else(|| self.name.unraw().to_string())
    }

    /// The attributes that say in which configurations it is there. Everything that is written for it has them.
    pub(super) fn conditions(&self) -> impl Iterator<Item = &Attribute> {
        self.attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"))
    }

    /// What is true of the configurations in which it is there; `None` if it is in all of them.
    pub(super) fn condition(&self) -> Option<TokenStream> {
        let conditions: Vec<_> = self
            .conditions()
            .filter_map(|attribute| attribute.meta.require_list().ok())
            .map(|list| list.tokens.clone())
            .collect();
        (!conditions.is_empty()).then(|| quote!(all(#(#conditions),*)))
    }

    /// What of the attributes says something to a caller.
    pub(super) fn words(&self) -> impl Iterator<Item = &Attribute> {
        words(&self.attributes)
    }
}

fn is_setting(attribute: &Attribute) -> bool {
    attribute.path().is_ident("method")
}

/// Reads `#[method(..)]`.
fn settings(function: &TraitItemFn, is_exclusive: Option<bool>, refusals: &mut Refusals) -> Settings {
    let mut settings = Settings::default();
    for attribute in function.attrs.iter().filter(|attribute| is_setting(attribute)) {
        let parsed = attribute.parse_nested_meta(|meta| match &meta.path {
            path if path.is_ident("name") => {
                let name: LitStr = meta.value()?.parse()?;
                wire_name::check(&name)?;
                settings.name = Some(name.value());
                Ok(())
            }
            path if path.is_ident("repeatable") && is_exclusive == Some(true) => Err(meta.error(
                "a method that takes `&mut self` is carried out once, however often it is sent: remove `repeatable`",
            )),
            path if path.is_ident("repeatable") => {
                settings.is_repeatable = true;
                Ok(())
            }
            _ => Err(meta.error(
                "a method does not know this: use `name = \"..\"` for its name on the wire, `repeatable` if a service may carry it \
                 out twice, or remove it",
            )),
        });
        if let Err(error) = parsed {
            refusals.include(error);
        }
    }
    settings
}

/// Refuses two methods that would be one on the wire. Of those that depend on the configuration only one may be there.
pub(super) fn refuse_same(methods: &[Method], refusals: &mut Refusals) {
    let always: Vec<_> = methods.iter().filter(|method| method.condition().is_none()).collect();
    for (at, method) in always.iter().enumerate() {
        if always[..at].iter().any(|earlier| earlier.wire_name() == method.wire_name()) {
            let name = method.wire_name();
            refusals.add(&method.name, format!("two methods go by {name:?} on the wire: give one another name"));
        }
    }
}

/// Documentation and deprecation.
pub(super) fn words(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("doc") || attribute.path().is_ident("deprecated"))
}

/// The names that callers and actors have a method by already, and what that does. An interface's own method of the same name
/// would hide it or be hidden by it, and when that method is renamed or removed, the code that called it may still compile and
/// do the other thing.
///
/// These are the methods of `Proxy` and of `Actor`, the hooks of `Lifecycle` and `Remindable`, and `Clone::clone`.
const TAKEN: &[(&str, &str)] = &[
    ("delete_actor", "every proxy deletes its actor by it (`Proxy::delete_actor`)"),
    ("with_timeout", "every proxy sets its time limit by it (`Proxy::with_timeout`)"),
    ("idempotent", "every proxy takes an idempotency key by it (`Proxy::idempotent`)"),
    ("at_most_once", "every proxy gives up repeating calls by it (`Proxy::at_most_once`)"),
    ("events", "every proxy subscribes to events by it (`Proxy::events`)"),
    ("caller", "every proxy has it for what the macros write (`Proxy::caller`)"),
    ("from_caller", "every proxy has it for what the macros write (`Proxy::from_caller`)"),
    ("of", "every proxy to an actor is made by it (`Proxy::of`)"),
    ("of_service", "every proxy to a service is made by it (`Proxy::of_service`)"),
    ("of_worker", "every proxy to a worker is made by it (`Proxy::of_worker`)"),
    ("clone", "every proxy is cloned by it (`Clone::clone`)"),
    ("save", "every actor saves in the middle of a turn by it (`Actor::save`)"),
    ("activate", "it is a hook of every actor (`Lifecycle::activate`)"),
    ("deactivate", "it is a hook of every actor (`Lifecycle::deactivate`)"),
    ("before_turn", "it is a hook of every actor (`Lifecycle::before_turn`)"),
    ("after_turn", "it is a hook of every actor (`Lifecycle::after_turn`)"),
    ("remind", "it is a hook of every actor (`Remindable::remind`)"),
];

fn refuse_taken(name: &Ident, refusals: &mut Refusals) {
    let text = name.unraw().to_string();
    if let Some((_, use_of_it)) = TAKEN.iter().find(|(taken, _)| *taken == text) {
        refusals.add(name, format!("`{text}` is taken: {use_of_it}; give the method another name"));
    }
    if text.starts_with("__") {
        refusals
            .add(name, format!("names such as `{text}` are for what the macros write: give the method another name"));
    }
}

fn refuse_generics(signature: &Signature, refusals: &mut Refusals) {
    if !signature.generics.params.is_empty() || signature.generics.where_clause.is_some() {
        let what = match signature.generics.where_clause.as_ref() {
            Some(clause) if signature.generics.params.is_empty() => clause.to_token_stream(),
            _ => signature.generics.to_token_stream(),
        };
        refusals.add(
            what,
            format!(
                "`{}` cannot be generic, because the type would have to be known where the call arrives: name the type, or write \
                 one method for each",
                signature.ident
            ),
        );
    }
    if let Some(variadic) = &signature.variadic {
        refusals.add(variadic, "a method of an interface has a fixed number of arguments: take a `Vec`");
    }
}

/// Whether the method takes `&mut self`; `None` if it takes neither that nor `&self`.
fn receiver(signature: &Signature, refusals: &mut Refusals) -> Option<bool> {
    match signature.receiver() {
        Some(receiver)
            if receiver.colon_token.is_none() && receiver.reference.as_ref().is_some_and(|(_, l)| l.is_none()) =>
        {
            Some(receiver.mutability.is_some())
        }
        Some(receiver) => {
            refusals.add(receiver, "take `&self` to run beside other calls, or `&mut self` to run alone");
            None
        }
        None => {
            refusals.add(
                &signature.ident,
                format!("`{}` is called on an object: take `&self`, or `&mut self` to run alone", signature.ident),
            );
            None
        }
    }
}

fn output(signature: &Signature, refusals: &mut Refusals) -> Option<Type> {
    match &signature.output {
        ReturnType::Type(_, output) => {
            refuse_type(output, refusals);
            Some((**output).clone())
        }
        ReturnType::Default => {
            refusals.add(
                &signature.ident,
                format!(
                    "`{}` must return `Result<..>`, because every call can fail: write `-> Result<()>`",
                    signature.ident
                ),
            );
            None
        }
    }
}

/// Refuses what cannot be owned by a call on its way.
pub(super) fn refuse_type(ty: &Type, refusals: &mut Refusals) {
    match ty {
        Type::Reference(reference) => {
            let referred = reference.elem.to_token_stream().to_string();
            let owned = match referred.as_str() {
                "str" => "String".to_owned(),
                other => match other.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                    Some(element) if !element.contains(';') => format!("Vec<{}>", element.trim()),
                    _ => other.to_owned(),
                },
            };
            refusals.add(
                ty,
                format!(
                    "a call may go to another process and cannot carry a reference: use an owned value, here `{owned}`"
                ),
            );
        }
        Type::ImplTrait(_) => {
            refusals.add(
                ty,
                "`impl Trait` would be generic: name the type, because it must be known where the call arrives",
            );
        }
        other => {
            if let Some(token) = find(other.to_token_stream(), &|token| match token {
                TokenTree::Punct(punct) => punct.as_char() == '&',
                TokenTree::Ident(ident) => ident == "Self",
                _ => false,
            }) {
                let message = match &token {
                    TokenTree::Ident(_) => {
                        "callers do not know which type implements the interface: name the type instead of `Self`"
                    }
                    _ => {
                        "a call may go to another process and cannot carry a reference: use owned values inside this type"
                    }
                };
                refusals.add(other, message);
            }
        }
    }
}

/// The first token, at any depth, of which something is true.
fn find(tokens: TokenStream, is_wanted: &dyn Fn(&TokenTree) -> bool) -> Option<TokenTree> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Group(group) => find(group.stream(), is_wanted),
        token if is_wanted(&token) => Some(token),
        _ => None,
    })
}
