use mainstay_core::Error;

use super::*;
use crate::setting;

/// What an application can have set of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shelf {
    room: usize,
    wait: Duration,
    wait_max: Duration,
    label: String,
    is_open: bool,
    /// `None` if nothing is sold there.
    price: Option<u64>,
    till: Option<Duration>,
}

impl Default for Shelf {
    fn default() -> Self {
        let (wait, wait_max) = (Duration::from_secs(1), Duration::from_secs(60));
        Self { room: 10, wait, wait_max, label: "shelf".to_owned(), is_open: true, price: None, till: None }
    }
}

const TIMES: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);

const KEYS: &[Key<Shelf>] = &[
    setting!("room", Count(1..=100) as usize, room),
    setting!("wait.first", Duration(TIMES), wait),
    setting!("wait.max", Duration(TIMES), wait_max),
    setting!("label", Text, label),
    setting!("is_open", Flag, is_open),
    Key {
        name: "price",
        form: Form::Count(1..=1000),
        get: |shelf| shelf.price.map_or(Value::None, Value::Count),
        set: |shelf, value| {
            if let (Some(price), Value::Count(wanted)) = (&mut shelf.price, value) {
                *price = wanted;
            }
        },
    },
    setting!("till", DurationLimit(TIMES) or none as Duration, till),
];

fn check(shelf: &Shelf) -> mainstay_core::Result<()> {
    match shelf.wait > shelf.wait_max {
        true => Err(Error::invalid("wait.first is longer than wait.max: give a shorter one")),
        false => Ok(()),
    }
}

const SHOP: Section<Shelf> = Section::<Shelf>::new("shop", KEYS);
const SHELVES: Section<Shelf> = Section::<Shelf>::new("store_room.shelves", KEYS).with_check(check);
const CELLARS: Section<Shelf> = Section::<Shelf>::new("store_room.cellars", KEYS).with_check(check);

/// A shelf as the code wants it.
fn priced() -> Shelf {
    Shelf { room: 20, price: Some(5), wait: Duration::from_secs(30), ..Shelf::default() }
}

/// One section alone, one of a name, and those of any name.
fn sections() -> Sections {
    let mut sections = Sections::default();
    sections.add(SHOP, Names::None, Shelf::default());
    sections.add(SHELVES, Names::One("wine".to_owned()), priced());
    sections.add(CELLARS, Names::Any, Shelf::default());
    sections
}

fn resolved(file: &str, variables: &[(&str, &str)], steps: Vec<Step>) -> mainstay_core::Result<Settings> {
    resolved_by(Knowledge::Types(vec![counter()]), sections(), file, variables, steps)
}

fn resolved_by(
    knowledge: Knowledge,
    sections: Sections,
    file: &str,
    variables: &[(&str, &str)],
    steps: Vec<Step>,
) -> mainstay_core::Result<Settings> {
    let environment = Environment::of(variables.iter().map(|(name, value)| (name.into(), value.into())));
    let file = Some(ConfigFile::new("mainstay.toml", file));
    Surroundings { file, environment }.resolve(knowledge, sections, steps)
}

fn refused(file: &str) -> String {
    resolved(file, &[], Vec::new()).unwrap_err().to_string()
}

#[test]
fn what_operators_say_of_a_section_goes_over_its_code() {
    let file = "[shop]\nlabel = \"till\"\nis_open = false\n[store_room.shelves.wine]\nroom = 30\nwait.max = \"50s\"";
    let variables = [("MAINSTAY_STORE_ROOM_SHELVES_WINE_WAIT_MAX", "40s"), ("MAINSTAY_SHOP_TILL", "none")];
    let steps = vec![set("store_room.shelves.wine.wait.first", "35s"), set("shop.is_open", "true")];
    let settings = resolved(file, &variables, steps).unwrap();
    for (key, expected) in [
        ("shop.label", "\"till\" from mainstay.toml:2"),
        ("shop.is_open", "true from builder"),
        ("shop.till", "\"none\" from environment MAINSTAY_SHOP_TILL"),
        ("shop.room", "10 from default"),
        ("store_room.shelves.wine.room", "30 from mainstay.toml:5"),
        ("store_room.shelves.wine.price", "5 from code"),
        ("store_room.shelves.wine.wait.max", "\"40s\" from environment MAINSTAY_STORE_ROOM_SHELVES_WINE_WAIT_MAX"),
        ("store_room.shelves.wine.wait.first", "\"35s\" from builder"),
    ] {
        assert_eq!(shown(&settings, key), expected, "{key}");
    }
    assert!(settings.remarks().is_empty(), "{:?}", settings.remarks());

    let shop = settings.section(SHOP, Shelf { till: Some(Duration::from_secs(1)), ..Shelf::default() }).unwrap();
    assert_eq!(shop, Shelf { label: "till".to_owned(), ..Shelf::default() });
    let wine = settings.section_named(SHELVES, "wine", priced()).unwrap();
    let (wait, wait_max) = (Duration::from_secs(35), Duration::from_secs(40));
    assert_eq!(wine, Shelf { room: 30, wait, wait_max, ..priced() });
    assert_eq!(settings.section_named(SHELVES, "beer", priced()).unwrap(), priced());
}

#[test]
fn sections_of_any_name_are_read_when_their_name_is_known() {
    let file = "[store_room.cellars.\"old one\"]\nroom = 1\n[store_room.cellars.deep]\nroom = 2\nprice = 7";
    let variables =
        [("MAINSTAY_STORE_ROOM_CELLARS_DEEP_WAIT_FIRST", "5s"), ("MAINSTAY_STORE_ROOM_CELLARS_FAR_ROOM", "9")];
    let settings = resolved(file, &variables, vec![set("store_room.cellars.deep.room", "3")]).unwrap();
    assert_eq!(settings.remarks(), &[] as &[String]);
    for (key, expected) in [
        ("store_room.cellars.\"old one\".room", "1 from mainstay.toml:2"),
        ("store_room.cellars.deep.room", "3 from builder"),
        ("store_room.cellars.deep.price", "7 from mainstay.toml:5"),
        ("store_room.cellars.deep.wait.first", "\"5s\" from environment MAINSTAY_STORE_ROOM_CELLARS_DEEP_WAIT_FIRST"),
        ("store_room.cellars.far.room", "9 from environment MAINSTAY_STORE_ROOM_CELLARS_FAR_ROOM"),
        ("store_room.cellars.deep.label", "no store_room.cellars.deep.label"),
    ] {
        assert_eq!(shown(&settings, key), expected, "{key}");
    }
    let deep = settings.section_named(CELLARS, "deep", priced()).unwrap();
    assert_eq!(deep, Shelf { room: 3, price: Some(7), wait: Duration::from_secs(5), ..priced() });
    assert_eq!(settings.section_named(CELLARS, "old one", priced()).unwrap(), Shelf { room: 1, ..priced() });
    assert_eq!(settings.section_named(CELLARS, "Far", priced()).unwrap().room, 9);

    // What the code says was not known at the start.
    let error = settings.section_named(CELLARS, "deep", Shelf::default()).unwrap_err().to_string();
    assert!(error.contains("mainstay.toml:5: store_room.cellars.deep.price has no meaning"), "{error}");
    let short = Shelf { wait_max: Duration::from_secs(2), price: Some(1), ..Shelf::default() };
    let error = settings.section_named(CELLARS, "deep", short).unwrap_err().to_string();
    assert!(error.contains("CELLARS_DEEP_WAIT_FIRST: store_room.cellars.deep: wait.first is longer"), "{error}");
}

#[test]
fn mistakes_in_sections_are_told_with_their_place() {
    for (file, expected) in [
        ("[shop]\nrom = 3", "mainstay.toml:2: unknown key \"shop.rom\": did you mean \"room\"?"),
        ("[shop]\nroom = 0", "mainstay.toml:2: shop.room is 0: give a whole number from 1 to 100"),
        ("[shop]\nis_open = \"yes\"", "mainstay.toml:2: shop.is_open is \"yes\": give true or false"),
        ("[shop]\nlabel = 3", "mainstay.toml:2: shop.label is 3: give a text"),
        ("shop = 3", "mainstay.toml:1: shop is a section and not a setting: write [shop]"),
        ("[shop]\nwait = \"1s\"", "shop.wait is a section and not a setting: give wait.first, wait.max"),
        ("store_room = 3", "mainstay.toml:1: store_room is a section and not a setting: write [store_room]"),
        (
            "[store_room.shelves.wien]\nroom = 3",
            "this program has no section \"store_room.shelves.wien\": did you mean \"store_room.shelves.wine\"? \
             (it has store_room.shelves.wine)",
        ),
        ("[store_room.shelfs.wine]\nroom = 3", "this program has no section"),
        (
            "[store_room.cellars]\nroom = 3",
            "store_room.cellars.room is a setting of one of them: write it below [store_room.cellars.NAME]",
        ),
        ("[store_room.cellars.deep]\nrom = 3", "unknown key \"store_room.cellars.deep.rom\": did you mean \"room\"?"),
        ("[store_room.cellars.deep]\nroom = 101", "mainstay.toml:2: store_room.cellars.deep.room is 101: give a whole"),
        ("[shp]\nroom = 3", "unknown key \"shp.room\""),
    ] {
        let error = refused(file);
        assert!(error.contains(expected), "{file}\n{error}\n{expected}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    for fine in
        ["[shop]", "[store_room]", "[store_room.shelves.wine]", "[store_room.cellars]", "[store_room.cellars.deep]"]
    {
        resolved(fine, &[], Vec::new()).unwrap();
    }
    // All of them at once, also those of the environment and of the builder.
    let wrong = [("MAINSTAY_SHOP_ROOM", "many")];
    let error = resolved("[shop]\nlabel = 3", &wrong, vec![set("shop.till", "soon")]).unwrap_err().to_string();
    assert!(error.contains("environment MAINSTAY_SHOP_ROOM: shop.room is \"many\""), "{error}");
    assert!(error.contains("builder: shop.till is \"soon\""), "{error}");
    assert_eq!(error.lines().count(), 3, "{error}");
}

#[test]
fn what_contradicts_the_code_of_a_section_is_refused() {
    // The code waits for 30 s at first, and for a minute at most.
    let error = refused("[store_room.shelves.wine]\nwait.max = \"20s\"");
    assert_eq!(
        error,
        "mainstay.toml:2: store_room.shelves.wine: wait.first is longer than wait.max: give a shorter one"
    );
    // The section alone has no price, and nothing to change.
    let error = refused("[shop]\nprice = 3");
    assert_eq!(error, "mainstay.toml:2: shop.price has no meaning beside what the program says of this: remove it");
    // Of what is known later, only what was said is held against each other.
    resolved("[store_room.cellars.deep]\nwait.first = \"2m\"", &[], Vec::new()).unwrap();
    let error = refused("[store_room.cellars.deep]\nwait = {first = \"2m\", max = \"1m\"}");
    assert!(error.contains("store_room.cellars.deep: wait.first is longer"), "{error}");
    // What the code says alone is its own to check.
    let mut sections = Sections::default();
    let wrong = Shelf { wait_max: Duration::from_millis(1), ..Shelf::default() };
    sections.add(SHELVES, Names::One("wine".to_owned()), wrong);
    resolved_by(Knowledge::Types(Vec::new()), sections, "", &[], Vec::new()).unwrap();
}

#[test]
fn without_the_program_its_sections_are_remarked_and_typing_errors_refused() {
    let look = |file: &str| resolved_by(Knowledge::Nothing, sections(), file, &[], Vec::new());
    let settings = look("[kitchen]\nheat = 3\n[kitchen.oven]\nheat = 4\n[shop]\nroom = 3").unwrap();
    assert_eq!(settings.remarks(), ["[kitchen] is not known here and was not checked: a section of the application?"]);
    assert_eq!(shown(&settings, "shop.room"), "3 from mainstay.toml:6");
    for wrong in ["[defalts]\nmailbox = 3", "[shopp]\nroom = 3", "heat = 3", "[shop]\nrom = 3"] {
        look(wrong).unwrap_err();
    }
    // With the program, what it does not have is a mistake.
    assert!(refused("[kitchen]\nheat = 3").contains("unknown key \"kitchen.heat\""));
}

#[test]
fn a_variable_that_is_nearly_one_of_a_section_is_remarked_with_it() {
    let settings =
        resolved("", &[("MAINSTAY_SHOP_ROM", "3"), ("MAINSTAY_STORE_ROOM_CELLARS_ROOM", "3")], Vec::new()).unwrap();
    let remarks = settings.remarks();
    assert!(
        remarks[0].contains("MAINSTAY_SHOP_ROM is not a setting and has no effect: was MAINSTAY_SHOP_ROOM meant?"),
        "{remarks:?}"
    );
    assert_eq!(remarks.len(), 2, "one without a name sets nothing: {remarks:?}");
}

#[test]
fn a_section_is_not_where_the_node_has_its_own() {
    for path in ["log", "defaults.shop", "services", "data_dir", "", "shop.", "the shop"] {
        let mut sections = Sections::default();
        sections.add(Section::<Shelf>::new(path.to_owned().leak(), KEYS), Names::None, Shelf::default());
        let error = resolved_by(Knowledge::Types(Vec::new()), sections, "", &[], Vec::new()).unwrap_err();
        assert!(error.to_string().contains(&format!("a section of settings is called {path:?}")), "{error}");
    }
}

#[test]
fn what_is_printed_of_sections_can_be_read_again() {
    let file = "[shop]\nlabel = \"a \\\"b\\\"\"\nis_open = false\n[store_room.cellars.\"old one\"]\nroom = 1";
    let printed = resolved(file, &[], Vec::new()).unwrap().to_string();
    let printed = printed.replace("store_room.shelves.wine.price", "# ");
    let again = resolved(&printed.replace("shop.price", "# "), &[], Vec::new()).unwrap();
    for (key, expected) in
        [("shop.label", "\"a \\\"b\\\"\""), ("shop.is_open", "false"), ("store_room.cellars.\"old one\".room", "1")]
    {
        assert!(shown(&again, key).starts_with(&format!("{expected} from mainstay.toml:")), "{}", shown(&again, key));
    }
}
