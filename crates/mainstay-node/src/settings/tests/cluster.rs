use super::*;

fn cluster(file: &str) -> mainstay_core::Result<Settings> {
    resolved(file, &[], Vec::new())
}

#[test]
fn seeds_are_an_array_in_the_file_and_have_commas_elsewhere() {
    let settings = cluster("cluster.seeds = [\"a:1\", \"10.0.0.6:7400\", \"[::1]:2\"]").unwrap();
    let seeds: Vec<_> = settings.cluster().seeds.iter().map(ToString::to_string).collect();
    assert_eq!(seeds, ["a:1", "10.0.0.6:7400", "[::1]:2"]);
    assert_eq!(shown(&settings, "cluster.seeds"), "[\"a:1\",\"10.0.0.6:7400\",\"[::1]:2\"] from mainstay.toml:1");
    let settings = resolved("", &[("MAINSTAY_CLUSTER_SEEDS", "a:1, b:2")], Vec::new()).unwrap();
    assert_eq!(settings.cluster().seeds.len(), 2);
    for wrong in ["[\"a\"]", "\"a:1;b:2\"", "[1]", "[\"a:1\", 2]", "7400", "[\"a:99999\"]"] {
        let refused = cluster(&format!("cluster.seeds = {wrong}")).unwrap_err().to_string();
        assert!(refused.contains("cluster.seeds") && refused.contains("hosts with ports"), "{wrong}: {refused}");
    }
}

#[test]
fn words_that_are_not_known_are_refused_with_the_known_ones() {
    let settings = cluster("[cluster]\nprofile = \"fast\"\ntls = \"off\"\nfault_domain = \"eu/1\"\n").unwrap();
    let ClusterSettings { profile, tls, fault_domain, .. } = settings.cluster();
    assert_eq!((*profile, *tls), (Some(Profile::Fast), Some(TlsMode::Off)));
    assert_eq!(fault_domain.as_deref(), Some("eu/1"));
    for (wrong, says) in [
        ("profile = \"quick\"", "\"default\", \"fast\", \"wan\""),
        ("tls = false", "\"on\", \"off\""),
        ("advertise = \"host\"", "a host with a port"),
        ("token = \"abc\"", "mainstay node token"),
        ("listen = \"host:1\"", "an address with a port"),
    ] {
        let refused = cluster(&format!("[cluster]\n{wrong}\n")).unwrap_err().to_string();
        assert!(refused.contains(says), "{wrong}: {refused}");
    }
}

#[test]
fn a_token_is_taken_and_never_shown() {
    let token = mainstay_wire::tls::JoinToken::new(
        vec!["a:1".parse().unwrap()],
        mainstay_core::ClusterId(7),
        mainstay_wire::tls::AuthorityHash([1; 32]),
        mainstay_wire::tls::Secret::generate().unwrap(),
        mainstay_core::time::WallTime::from_millis(1),
    )
    .unwrap();
    let text = token.to_text();
    let settings = resolved("", &[("MAINSTAY_CLUSTER_TOKEN", &text)], Vec::new()).unwrap();
    assert_eq!(settings.cluster().token.as_ref(), Some(&token));
    let all = [settings.to_string(), settings.to_json().to_string(), format!("{settings:?}")];
    assert!(all.iter().all(|shown| !shown.contains(&text[..40])), "{}", all[0]);
    assert!(all[0].contains("(not shown)"));
}
