use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprCall, ExprPath, ExprRange, Lit, LitInt, LitStr, RangeLimits, Token};

/// How many partitions a service has unless told otherwise.
const PARTITIONS_DEFAULT: u32 = 10;

/// `uniform(10)`, `uniform(4, 0..=99)`, `named("eu", "us")` or `singleton`, with or without quotes around it.
pub(super) enum Partitions {
    Uniform { count: LitInt, range: Option<(Box<Expr>, Box<Expr>)> },
    Named(Vec<String>),
    Singleton,
}

const FORMS: &str = "use `uniform(10)`, `uniform(4, 0..=99)`, `named(\"eu\", \"us\")` or `singleton`";

impl Default for Partitions {
    fn default() -> Self {
        Self::Uniform { count: LitInt::new(&PARTITIONS_DEFAULT.to_string(), Span::call_site()), range: None }
    }
}

impl Parse for Partitions {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(LitStr) {
            let text: LitStr = input.parse()?;
            let inner = text.parse::<Expr>().map_err(|_| syn::Error::new(text.span(), FORMS))?;
            return Self::read(&inner);
        }
        Self::read(&input.parse()?)
    }
}

impl Partitions {
    fn read(form: &Expr) -> syn::Result<Self> {
        match form {
            Expr::Path(path) if path.path.is_ident("singleton") => Ok(Self::Singleton),
            Expr::Call(call) if is_call_of(call, "uniform") => uniform(call),
            Expr::Call(call) if is_call_of(call, "named") => named(&call.args),
            other => Err(syn::Error::new_spanned(other, FORMS)),
        }
    }

    pub(super) fn expand(&self) -> TokenStream {
        match self {
            Self::Uniform { count, range: None } => quote!(::mainstay::__private::Partitioning::uniform(#count)),
            Self::Uniform { count, range: Some((low, high)) } => {
                quote!(::mainstay::__private::Partitioning::uniform_between(#count, #low, #high))
            }
            Self::Named(names) => quote!(::mainstay::__private::Partitioning::named([#(#names),*])),
            Self::Singleton => quote!(::mainstay::__private::Partitioning::singleton()),
        }
    }
}

fn is_call_of(call: &ExprCall, name: &str) -> bool {
    matches!(&*call.func, Expr::Path(ExprPath { path, .. }) if path.is_ident(name))
}

fn uniform(call: &ExprCall) -> syn::Result<Partitions> {
    let mut arguments = call.args.iter();
    let count = match arguments.next() {
        Some(Expr::Lit(literal)) => match &literal.lit {
            Lit::Int(count) => count.clone(),
            other => {
                return Err(syn::Error::new_spanned(other, "give the number of partitions, for example `uniform(10)`"));
            }
        },
        _ => return Err(syn::Error::new_spanned(call, "give the number of partitions, for example `uniform(10)`")),
    };
    if count.base10_parse::<u32>()? == 0 {
        return Err(syn::Error::new(count.span(), "a service has at least one partition"));
    }
    let range = match arguments.next() {
        None => None,
        Some(Expr::Range(ExprRange { start: Some(low), end: Some(high), limits: RangeLimits::Closed(_), .. })) => {
            Some((low.clone(), high.clone()))
        }
        Some(other) => {
            return Err(syn::Error::new_spanned(other, "give the lowest and the highest key, for example `0..=99`"));
        }
    };
    match arguments.next() {
        Some(more) => Err(syn::Error::new_spanned(more, FORMS)),
        None => Ok(Partitions::Uniform { count, range }),
    }
}

fn named(arguments: &Punctuated<Expr, Token![,]>) -> syn::Result<Partitions> {
    let refusal = |what: &dyn quote::ToTokens| {
        syn::Error::new_spanned(what, "give the names of the partitions, for example `named(\"eu\", \"us\")`")
    };
    if arguments.is_empty() {
        return Err(syn::Error::new(Span::call_site(), "`named()` has no partition: give at least one name"));
    }
    let names = arguments.iter().map(|argument| match argument {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(name) => Ok(name.value()),
            other => Err(refusal(other)),
        },
        // Within quotes, names need none of their own.
        Expr::Path(path) => path.path.get_ident().map(ToString::to_string).ok_or_else(|| refusal(path)),
        other => Err(refusal(other)),
    });
    names.collect::<syn::Result<_>>().map(Partitions::Named)
}
