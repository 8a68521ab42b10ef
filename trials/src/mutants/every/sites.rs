//! Mutation sites of a source, found with a parser.

use crate::marks;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, Stmt};

/// Kinds of mutation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Omits a call whose value is unused.
    Call,
    /// Omits an assignment to a field or an element, or a compound assignment such as `+=`.
    Assignment,
    /// Negates a condition; one with a pattern becomes false.
    Condition,
    /// Replaces `<` by `<=`, `==` by `!=`.
    Comparison,
    /// Omits a `return`, `break` or `continue`.
    Jump,
    /// Omits an arm of a `match`, whose values then go to the last arm.
    Arm,
    /// Increments a number: a literal or a constant of the same crate.
    Number,
}
impl Kind {
    /// All kinds with their words on the command line.
    pub const ALL: [(Kind, &str); 7] = [
        (Kind::Call, "calls"),
        (Kind::Assignment, "assignments"),
        (Kind::Condition, "conditions"),
        (Kind::Comparison, "comparisons"),
        (Kind::Jump, "jumps"),
        (Kind::Arm, "arms"),
        (Kind::Number, "numbers"),
    ];
    /// Word on the command line and in tables.
    pub fn word(self) -> &'static str {
        Kind::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, word)| word)
    }
}

/// A place where a mutant can stand.
#[derive(Clone, Debug)]
pub struct Site {
    /// Number for the switch: a digest of the anchor, which survives edits elsewhere.
    pub number: u32,
    pub kind: Kind,
    /// File, relative to the root.
    pub file: String,
    /// First and last line of the site.
    pub lines: (usize, usize),
    /// First and last line of the function.
    pub function: (usize, usize),
    /// Path of module, type and function.
    pub item: String,
    /// Code of the site on one line.
    pub text: String,
    /// Position among sites of the same kind and text in this item, from 0.
    pub ordinal: usize,
    /// Digest of the function's text.
    pub digest: u64,
    /// Rules of standards whose marks cover the site.
    pub marks: Vec<String>,
}
impl Site {
    /// Name of the mutant, independent of path and line.
    pub fn anchor(&self) -> String {
        let ordinal = if self.ordinal == 0 { String::new() } else { format!(" #{}", self.ordinal + 1) };
        format!("{} {}: {}{ordinal}", self.kind.word(), self.item, self.text)
    }
}

/// Selection of sites.
pub struct Wanted<'a> {
    pub kinds: &'a [Kind],
    /// Whether only sites under marks of rules are selected.
    pub marked: bool,
    /// Predicate over anchors; it excludes mutants that do not compile.
    pub may: &'a dyn Fn(&str) -> bool,
}

/// A source with switches around its sites.
pub struct Source {
    /// Path relative to the root.
    pub file: String,
    pub text: String,
    pub sites: Vec<Site>,
}

/// Instruments the sources of a crate, `folder` from the root.
///
/// # Errors
/// When a source cannot be read or parsed.
pub fn of_crate(root: &Path, folder: &str, wanted: &Wanted) -> Result<Vec<Source>> {
    let top = root.join(folder).join("src");
    let name = folder.rsplit('/').next().unwrap_or(folder).to_string();
    let (mut parts, mut constants) = (Vec::new(), BTreeMap::new());
    // Modules are followed from `lib.rs`, so that files for tests only are never touched.
    let mut open = vec![(top.join("lib.rs"), top.clone(), name)];
    while let Some((path, folder, module)) = open.pop() {
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let parsed = syn::parse_file(&text).with_context(|| format!("parsing {}", path.display()))?;
        for item in &parsed.items {
            let syn::Item::Mod(inner) = item else { continue };
            if inner.content.is_some() || for_tests(&inner.attrs) {
                continue;
            }
            let word = inner.ident.to_string();
            let flat = folder.join(format!("{word}.rs"));
            let path = if flat.exists() { flat } else { folder.join(&word).join("mod.rs") };
            open.push((path, folder.join(&word), format!("{module}::{word}")));
        }
        let file = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        // A constant may be used in any file of the crate: all are collected before the first site.
        constants.extend(constants_of(&parsed, &marked_lines(&text)));
        parts.push((text, parsed, file, module));
    }
    let instrumented = |(text, parsed, file, module): (String, syn::File, String, String)| {
        instrument(&text, &parsed, file, &module, &constants, wanted)
    };
    let mut sources: Vec<Source> = parts.into_iter().map(instrumented).collect();
    sources.sort_by(|one, other| one.file.cmp(&other.file));
    Ok(sources)
}

/// Instruments one source; line numbers stay the same.
fn instrument(
    text: &str,
    parsed: &syn::File,
    file: String,
    module: &str,
    constants: &BTreeMap<String, Vec<String>>,
    wanted: &Wanted,
) -> Source {
    let mut finder = Finder {
        text,
        file: &file,
        wanted,
        path: vec![module.to_string()],
        function: None,
        marks: marked_lines(text),
        constants,
        under: Vec::new(),
        unit: HashSet::new(),
        unit_blocks: HashSet::new(),
        counts: BTreeMap::new(),
        sites: Vec::new(),
        edits: Vec::new(),
    };
    finder.visit_file(parsed);
    let Finder { sites, mut edits, .. } = finder;
    // Order of edits at one position: first the ends of ranges, inner ranges before outer ones, then the beginnings,
    // outer ranges before inner ones.
    edits.sort_by_key(|edit| (edit.at, !edit.ends, if edit.ends { -edit.order } else { edit.order }));
    let (mut out, mut done) = (String::with_capacity(text.len() * 2), 0);
    for edit in edits {
        out += &text[done..edit.at];
        out += &edit.text;
        done = edit.at;
    }
    out += &text[done..];
    Source { file, text: out, sites }
}

/// Rules whose marks precede a line, by its number.
fn marked_lines(text: &str) -> BTreeMap<usize, Vec<String>> {
    let (mut marked, mut open) = (BTreeMap::new(), Vec::new());
    for (line, number) in text.lines().map(str::trim).zip(1..) {
        match line.strip_prefix("// ").and_then(marks::ids) {
            Some(ids) => open.extend(ids.into_iter().map(String::from)),
            None if marks::is_about_items(line) || open.is_empty() => {}
            None => {
                marked.insert(number, std::mem::take(&mut open));
            }
        }
    }
    marked
}

/// Integer constants of a source, with the rules whose marks precede them.
fn constants_of(file: &syn::File, marks: &BTreeMap<usize, Vec<String>>) -> BTreeMap<String, Vec<String>> {
    struct Constants<'a>(&'a BTreeMap<usize, Vec<String>>, BTreeMap<String, Vec<String>>);
    impl Constants<'_> {
        fn one(&mut self, name: &syn::Ident, kind: &syn::Type, line: usize) {
            const WHOLE: [&str; 7] = ["u8", "u16", "u32", "u64", "u128", "usize", "i64"];
            if matches!(kind, syn::Type::Path(path) if WHOLE.iter().any(|word| path.path.is_ident(word))) {
                self.1.insert(name.to_string(), self.0.get(&line).cloned().unwrap_or_default());
            }
        }
    }
    impl<'ast> Visit<'ast> for Constants<'_> {
        fn visit_item_const(&mut self, it: &'ast syn::ItemConst) {
            let line = first_line(it.const_token.span, &it.vis);
            self.one(&it.ident, &it.ty, line);
        }
        fn visit_impl_item_const(&mut self, it: &'ast syn::ImplItemConst) {
            let line = first_line(it.const_token.span, &it.vis);
            self.one(&it.ident, &it.ty, line);
        }
    }
    let mut constants = Constants(marks, BTreeMap::new());
    constants.visit_file(file);
    constants.1
}
fn first_line(keyword: proc_macro2::Span, visibility: &syn::Visibility) -> usize {
    match visibility {
        syn::Visibility::Inherited => keyword.start().line,
        visible => visible.span().start().line,
    }
}

struct Edit {
    at: usize,
    ends: bool,
    order: i64,
    text: String,
}

struct Function {
    digest: u64,
    lines: (usize, usize),
}

struct Finder<'a> {
    text: &'a str,
    file: &'a str,
    wanted: &'a Wanted<'a>,
    path: Vec<String>,
    function: Option<Function>,
    marks: BTreeMap<usize, Vec<String>>,
    /// Integer constants of the crate, with the rules whose marks precede them.
    constants: &'a BTreeMap<String, Vec<String>>,
    under: Vec<String>,
    /// Expressions of type `()`, by address.
    unit: HashSet<*const Expr>,
    /// Blocks of type `()`, by address.
    unit_blocks: HashSet<*const Block>,
    counts: BTreeMap<String, usize>,
    sites: Vec<Site>,
    edits: Vec<Edit>,
}

/// Whether code with these attributes is compiled for tests only.
fn for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute
                    .meta
                    .require_list()
                    .is_ok_and(|list| ["test", "feature = \"audit\""].contains(&list.tokens.to_string().as_str()))
    })
}

/// FNV-1a hash of 64 bits.
pub fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Text without comments and line breaks.
fn on_one_line(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

impl Finder<'_> {
    /// Records a site; returns its number if it is selected.
    fn site(&mut self, kind: Kind, span: proc_macro2::Span) -> Option<u32> {
        let function = self.function.as_ref()?;
        if !self.wanted.kinds.contains(&kind) {
            return None;
        }
        // Ordinals count all sites of a kind, selected or not, so that a selection does not renumber them.
        let (text, item) = (on_one_line(&self.text[span.byte_range()]), self.path.join("::"));
        let count = self.counts.entry(format!("{kind:?} {item} {text}")).or_default();
        let ordinal = *count;
        *count += 1;
        let lines = (span.start().line, span.end().line);
        let mut under: BTreeSet<&String> = self.under.iter().collect();
        under.extend(self.marks.get(&lines.0).into_iter().flatten());
        if self.wanted.marked && under.is_empty() {
            return None;
        }
        let mut site = Site {
            number: 0,
            kind,
            file: self.file.to_string(),
            lines,
            function: function.lines,
            item,
            text,
            ordinal,
            digest: function.digest,
            marks: under.into_iter().cloned().collect(),
        };
        let anchor = site.anchor();
        if !(self.wanted.may)(&anchor) {
            return None;
        }
        // 31 bits: the switch reserves the largest numbers for itself.
        site.number = (digest(&anchor) >> 33) as u32;
        let number = site.number;
        self.sites.push(site);
        Some(number)
    }
    fn wrap(&mut self, span: proc_macro2::Span, before: String, after: String) {
        let (range, order) = (span.byte_range(), i64::try_from(self.edits.len()).unwrap_or(i64::MAX));
        self.edits.push(Edit { at: range.start, ends: false, order, text: before });
        self.edits.push(Edit { at: range.end, ends: true, order, text: after });
    }
    fn guard(&mut self, kind: Kind, span: proc_macro2::Span) {
        if let Some(number) = self.site(kind, span) {
            self.wrap(span, format!("if ::farlink_mutant::live({number}) {{ "), " }".into());
        }
    }
    fn negate(&mut self, kind: Kind, span: proc_macro2::Span) {
        if let Some(number) = self.site(kind, span) {
            self.wrap(span, format!("(::farlink_mutant::live({number}) == ("), "))".into());
        }
    }
    fn tail(&mut self, call: &Expr) {
        // Instead of the last call of a function, the mutant returns `Ok(())`.
        if let Some(number) = self.site(Kind::Call, call.span()) {
            self.wrap(call.span(), format!("if ::farlink_mutant::live({number}) {{ "), " } else { Ok(()) }".into());
        }
    }
    fn add_one(&mut self, span: proc_macro2::Span, more: &str) {
        // One more is always another value, so that the mutant differs from the code.
        if let Some(number) = self.site(Kind::Number, span) {
            let before = format!("(if ::farlink_mutant::live({number}) {{ ");
            self.wrap(span, before, format!(" }} else {{ {more} }})"));
        }
    }
    fn number(&mut self, expr: &Expr) {
        match expr {
            Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(it), .. }) => {
                // Without its suffix a literal could get another type.
                if let Some(more) = it.base10_parse::<u128>().ok().and_then(|value| value.checked_add(1)) {
                    self.add_one(expr.span(), &format!("{more}{}", it.suffix()));
                }
            }
            Expr::Path(it) => {
                let Some(name) = it.path.segments.last().map(|last| last.ident.to_string()) else { return };
                let Some(marks) = self.constants.get(&name).cloned() else { return };
                let before = self.under.len();
                // A use of the constant counts to the rules of its definition.
                self.under.extend(marks);
                self.add_one(expr.span(), &format!("{} + 1", &self.text[expr.span().byte_range()]));
                self.under.truncate(before);
            }
            _ => {}
        }
    }
    /// Finds conditions in a Boolean expression. Branches of `if` and `match` are visited instead of the whole.
    fn truth(&mut self, expr: &Expr) {
        match expr {
            Expr::Block(it) => self.truth_of(&it.block),
            Expr::If(it) => {
                self.truth_of(&it.then_branch);
                if let Some((_, other)) = &it.else_branch {
                    self.truth(other);
                }
            }
            Expr::Match(it) => it.arms.iter().for_each(|arm| self.truth(&arm.body)),
            Expr::Return(_) | Expr::Lit(_) | Expr::Macro(_) => {}
            Expr::Binary(it) if is_assigning(&it.op) || matches!(it.op, BinOp::And(_) | BinOp::Or(_)) => {}
            _ if is_equality(expr) || has_let(expr) => {}
            _ => self.negate(Kind::Condition, expr.span()),
        }
    }
    fn truth_of(&mut self, block: &Block) {
        if let Some(Stmt::Expr(last, None)) = block.stmts.last() {
            self.marked(last.span().start().line, |finder| finder.truth(last));
        }
    }
    /// Finds the mutant of an `if`, `while` or match guard.
    fn condition(&mut self, condition: &Expr) {
        // A condition with `let` cannot be negated: `live && let ...` makes it false instead.
        if has_let(condition) {
            if let Some(number) = self.site(Kind::Condition, condition.span()) {
                self.wrap(condition.span(), format!("::farlink_mutant::live({number}) && "), String::new());
            }
        } else if !is_equality(condition) {
            self.negate(Kind::Condition, condition.span());
        }
    }
    // A branch of type `()` may be guarded like a statement.
    fn is_unit(&mut self, expr: &Expr) {
        match expr {
            Expr::If(it) => {
                self.is_unit_block(&it.then_branch);
                if let Some((_, other)) = &it.else_branch {
                    self.is_unit(other);
                }
            }
            Expr::Match(it) => it.arms.iter().for_each(|arm| self.is_unit(&arm.body)),
            Expr::Block(it) => self.is_unit_block(&it.block),
            _ => {
                self.unit.insert(expr);
            }
        }
    }
    fn is_unit_block(&mut self, block: &Block) {
        self.unit_blocks.insert(block);
        if let Some(Stmt::Expr(last, None)) = block.stmts.last() {
            self.is_unit(last);
        }
    }
    /// Guards a statement, or an expression in its place.
    fn statement(&mut self, expr: &Expr, span: proc_macro2::Span, jumps: bool) {
        match expr {
            Expr::Call(_) | Expr::MethodCall(_) => self.guard(Kind::Call, span),
            Expr::Try(it) if matches!(*it.expr, Expr::Call(_) | Expr::MethodCall(_)) => self.guard(Kind::Call, span),
            // An assignment to a variable is left out: the compiler checks initialisation.
            Expr::Assign(it) if !matches!(*it.left, Expr::Path(_) | Expr::Infer(_) | Expr::Tuple(_)) => {
                self.guard(Kind::Assignment, span);
            }
            Expr::Binary(it) if is_assigning(&it.op) => self.guard(Kind::Assignment, span),
            Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) if jumps => self.guard(Kind::Jump, span),
            _ => {}
        }
    }
    fn function(&mut self, name: &syn::Ident, signature: &syn::Signature, block: &Block, span: proc_macro2::Span) {
        // A `const fn` cannot read a switch.
        if signature.constness.is_some() {
            return;
        }
        let lines = (span.start().line, span.end().line);
        let function = Function { digest: digest(&on_one_line(&self.text[span.byte_range()])), lines };
        let before = self.function.replace(function);
        self.path.push(name.to_string());
        if matches!(signature.output, syn::ReturnType::Default) {
            self.is_unit_block(block);
        }
        // Replacing the last call by `Ok(())` needs a `Result<(), _>`.
        if gives_nothing(&signature.output)
            && let Some(Stmt::Expr(last @ (Expr::Call(_) | Expr::MethodCall(_)), None)) = block.stmts.last()
            && !is_wrapped(last)
        {
            let lines = [signature.span().start().line, last.span().start().line];
            self.marked(lines[0], |finder| finder.marked(lines[1], |finder| finder.tail(last)));
        }
        let is_truth = matches!(&signature.output, syn::ReturnType::Type(_, kind)
            if matches!(&**kind, syn::Type::Path(path) if path.path.is_ident("bool")));
        self.marked(signature.span().start().line, |finder| {
            if is_truth {
                finder.truth_of(block);
            }
        });
        self.marked(signature.span().start().line, |finder| finder.visit_block(block));
        self.path.pop();
        self.function = before;
    }
    /// Runs `something` under the marks that precede a line.
    fn marked(&mut self, line: usize, something: impl FnOnce(&mut Self)) {
        let before = self.under.len();
        self.under.extend(self.marks.get(&line).into_iter().flatten().cloned());
        something(self);
        self.under.truncate(before);
    }
    fn within(&mut self, name: String, something: impl FnOnce(&mut Self)) {
        self.path.push(name);
        something(self);
        self.path.pop();
    }
}

/// Whether a return type is `Result<(), _>`.
fn gives_nothing(output: &syn::ReturnType) -> bool {
    let syn::ReturnType::Type(_, kind) = output else { return false };
    let syn::Type::Path(path) = &**kind else { return false };
    let Some(last) = path.path.segments.last().filter(|last| last.ident == "Result") else { return false };
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else { return false };
    let first = arguments.args.first();
    matches!(first, Some(syn::GenericArgument::Type(syn::Type::Tuple(unit))) if unit.elems.is_empty())
}
/// Whether a call merely wraps a result: `Ok(..)`, `Err(..)`.
fn is_wrapped(call: &Expr) -> bool {
    matches!(call, Expr::Call(it) if matches!(&*it.func, Expr::Path(path) if path.path.is_ident("Ok") || path.path.is_ident("Err")))
}
fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(it) => matches!(it.op, BinOp::And(_)) && (has_let(&it.left) || has_let(&it.right)),
        _ => false,
    }
}
fn is_equality(expr: &Expr) -> bool {
    matches!(expr, Expr::Binary(it) if matches!(it.op, BinOp::Eq(_) | BinOp::Ne(_)))
}
fn is_assigning(op: &BinOp) -> bool {
    !matches!(
        op,
        BinOp::Add(_)
            | BinOp::Sub(_)
            | BinOp::Mul(_)
            | BinOp::Div(_)
            | BinOp::Rem(_)
            | BinOp::And(_)
            | BinOp::Or(_)
            | BinOp::BitXor(_)
            | BinOp::BitAnd(_)
            | BinOp::BitOr(_)
            | BinOp::Shl(_)
            | BinOp::Shr(_)
            | BinOp::Eq(_)
            | BinOp::Lt(_)
            | BinOp::Le(_)
            | BinOp::Ne(_)
            | BinOp::Ge(_)
            | BinOp::Gt(_)
    )
}
/// Methods that take a predicate.
const JUDGES: [&str; 11] = [
    "filter",
    "any",
    "all",
    "is_some_and",
    "is_ok_and",
    "is_none_or",
    "find",
    "position",
    "retain",
    "take_while",
    "skip_while",
];
/// Whether one pattern covers another: a plain name, or the same variant with wildcards.
fn covers(wide: &syn::Pat, narrow: &syn::Pat) -> bool {
    if matches!(wide, syn::Pat::Ident(name) if name.ident.to_string().starts_with(char::is_lowercase)) {
        return true;
    }
    let (syn::Pat::TupleStruct(wide), syn::Pat::TupleStruct(narrow)) = (wide, narrow) else { return false };
    let any = |pat: &syn::Pat| matches!(pat, syn::Pat::Wild(_) | syn::Pat::Rest(_));
    let names = |path: &syn::Path| path.segments.iter().map(|part| part.ident.to_string()).collect::<Vec<_>>();
    names(&wide.path) == names(&narrow.path) && wide.elems.iter().all(any)
}
/// Mutated operator of a comparison.
fn turned(op: &BinOp) -> Option<&'static str> {
    Some(match op {
        BinOp::Lt(_) => "<=",
        BinOp::Le(_) => "<",
        BinOp::Gt(_) => ">=",
        BinOp::Ge(_) => ">",
        _ => return None,
    })
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes: &[syn::Attribute] = match item {
            syn::Item::Fn(it) => &it.attrs,
            syn::Item::Impl(it) => &it.attrs,
            syn::Item::Mod(it) => &it.attrs,
            _ => &[],
        };
        if !for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }
    fn visit_item_fn(&mut self, it: &'ast syn::ItemFn) {
        self.function(&it.sig.ident, &it.sig, &it.block, it.span());
    }
    fn visit_impl_item_fn(&mut self, it: &'ast syn::ImplItemFn) {
        if !for_tests(&it.attrs) {
            self.function(&it.sig.ident, &it.sig, &it.block, it.span());
        }
    }
    fn visit_trait_item_fn(&mut self, it: &'ast syn::TraitItemFn) {
        if let Some(block) = &it.default {
            self.function(&it.sig.ident, &it.sig, block, it.span());
        }
    }
    fn visit_item_impl(&mut self, it: &'ast syn::ItemImpl) {
        let name = match &*it.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map_or(String::new(), |last| last.ident.to_string()),
            other => on_one_line(&self.text[other.span().byte_range()]),
        };
        self.marked(it.impl_token.span.start().line, |finder| {
            finder.within(name, |finder| it.items.iter().for_each(|item| finder.visit_impl_item(item)));
        });
    }
    fn visit_item_trait(&mut self, it: &'ast syn::ItemTrait) {
        self.within(it.ident.to_string(), |finder| it.items.iter().for_each(|item| finder.visit_trait_item(item)));
    }
    fn visit_item_mod(&mut self, it: &'ast syn::ItemMod) {
        self.within(it.ident.to_string(), |finder| visit::visit_item_mod(finder, it));
    }
    // Constants cannot read a switch.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_item_struct(&mut self, _: &'ast syn::ItemStruct) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_expr_repeat(&mut self, it: &'ast syn::ExprRepeat) {
        self.visit_expr(&it.expr);
    }

    fn visit_block(&mut self, block: &'ast Block) {
        for (at, statement) in block.stmts.iter().enumerate() {
            let last = at + 1 == block.stmts.len();
            self.marked(statement.span().start().line, |finder| {
                match statement {
                    Stmt::Expr(expr, Some(_)) => {
                        // `return;` at the end of a block of type `()` may be omitted.
                        let jumps = last && finder.unit_blocks.contains(&std::ptr::from_ref(block));
                        finder.statement(expr, statement.span(), jumps);
                    }
                    Stmt::Expr(expr, None) if !last => finder.is_unit(expr),
                    Stmt::Local(local) if matches!(local.pat, syn::Pat::Wild(_)) => {
                        if local.init.as_ref().is_some_and(|init| init.diverge.is_none()) {
                            finder.guard(Kind::Call, statement.span());
                        }
                    }
                    _ => {}
                }
                finder.visit_stmt(statement);
            });
        }
    }
    fn visit_expr(&mut self, expr: &'ast Expr) {
        if self.unit.contains(&std::ptr::from_ref(expr)) {
            self.statement(expr, expr.span(), true);
        }
        match expr {
            Expr::If(it) => {
                if it.else_branch.is_none() {
                    self.is_unit_block(&it.then_branch);
                }
                self.condition(&it.cond);
            }
            Expr::While(it) => {
                self.is_unit_block(&it.body);
                self.condition(&it.cond);
            }
            Expr::ForLoop(it) => self.is_unit_block(&it.body),
            Expr::Loop(it) => self.is_unit_block(&it.body),
            Expr::MethodCall(it) if it.method == "for_each" => {
                if let Some(Expr::Closure(closure)) = it.args.first() {
                    self.is_unit(&closure.body);
                }
            }
            Expr::MethodCall(it) if JUDGES.iter().any(|judge| it.method == judge) => {
                if let Some(Expr::Closure(closure)) = it.args.last() {
                    self.truth(&closure.body);
                }
            }
            Expr::Lit(_) | Expr::Path(_) => self.number(expr),
            Expr::Match(it) => {
                // An arm may be omitted only if the last one accepts its values.
                let falls = |arm: &syn::Arm| {
                    let last = it.arms.last().filter(|last| last.guard.is_none());
                    last.is_some_and(|last| matches!(last.pat, syn::Pat::Wild(_)) || covers(&last.pat, &arm.pat))
                };
                for (at, arm) in it.arms.iter().enumerate() {
                    if let Some((_, guard)) = &arm.guard {
                        self.condition(guard);
                    } else if falls(arm)
                        && at + 1 < it.arms.len()
                        && let Some(number) = self.site(Kind::Arm, arm.pat.span())
                    {
                        self.wrap(arm.pat.span(), String::new(), format!(" if ::farlink_mutant::live({number})"));
                    }
                }
            }
            Expr::Binary(it) => match &it.op {
                BinOp::Eq(_) | BinOp::Ne(_) => self.negate(Kind::Comparison, expr.span()),
                BinOp::And(_) | BinOp::Or(_) => {
                    for side in [&*it.left, &*it.right] {
                        // Chains of `&&` and `||` are negated part by part, not as a whole.
                        let joined = matches!(side, Expr::Binary(it) if matches!(it.op, BinOp::And(_) | BinOp::Or(_)));
                        if !(joined || has_let(side) || is_equality(side)) {
                            self.negate(Kind::Condition, side.span());
                        }
                    }
                }
                op => {
                    let side = |side: &Expr| on_one_line(&self.text[side.span().byte_range()]);
                    let (left, right) = (side(&it.left), side(&it.right));
                    // `on_one_line` would also cut a string that contains `//`.
                    let whole = !self.text[expr.span().byte_range()].contains("//");
                    if let Some(turned) = turned(op).filter(|_| whole)
                        && let Some(number) = self.site(Kind::Comparison, expr.span())
                    {
                        let before = format!("(if ::farlink_mutant::live({number}) {{ (");
                        self.wrap(expr.span(), before, format!(") }} else {{ ({left}) {turned} ({right}) }})"));
                    }
                }
            },
            _ => {}
        }
        visit::visit_expr(self, expr);
    }
    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        self.marked(arm.pat.span().start().line, |finder| visit::visit_arm(finder, arm));
    }
}
