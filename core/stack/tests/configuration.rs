//! Configurations that a node refuses to start with, because running with them would lose bundles or protection.

use farlink_base::{ConfigError, DataRate, Duration, EndpointId, Instant, LinkId};
use farlink_cla::ltp::{self, Authentication};
use farlink_cla::tcpcl_v4;
use farlink_stack::{Config, LayerConfig, LayerKind, LinkConfig, LinkParams, ShardConfig, Stack};

/// A node with one layer, LTP, and this link to its neighbour.
fn node(params: LinkParams) -> Config {
    let mut config = Config::new(EndpointId::ipn(1, 0));
    let kind = LayerKind::Ltp(ltp::Config { engine: 1, ..ltp::Config::default() });
    config.layers = vec![LayerConfig { name: "ltp".into(), kind }];
    config.links = vec![LinkConfig {
        name: "far".into(),
        peer: EndpointId::ipn(2, 0),
        layer: 0,
        rate: Some(DataRate(1_000_000)),
        one_way_delay: Duration::ZERO,
        terms: Default::default(),
        params,
    }];
    config.node.limits.bundles = 1 << 20;
    config
}
fn plain() -> LinkParams {
    LinkParams::Ltp(ltp::SpanConfig { engine: 2, ..ltp::SpanConfig::default() })
}
fn keyless() -> LinkParams {
    let authentication = Authentication::HmacSha1(Vec::new());
    LinkParams::Ltp(ltp::SpanConfig { engine: 2, authentication, ..ltp::SpanConfig::default() })
}
fn path(result: Result<(), ConfigError>) -> Option<String> {
    result.err().map(|error| error.path)
}
fn refusal(config: Config) -> Option<String> {
    path(Stack::new(config).map(drop))
}

#[test]
fn authenticated_link_without_key_is_refused() {
    let wanted = Some(String::from("link.far.authentication"));
    assert_eq!(refusal(node(keyless())), wanted);
    let link = node(keyless()).links.remove(0);
    let mut stack = Stack::new(Config { links: Vec::new(), ..node(plain()) }).expect("right");
    let added = stack.add_link(Instant::ZERO, LinkId(0), &link, &mut Vec::new());
    assert_eq!(path(added), wanted);
    assert!(stack.status(Instant::ZERO).links.is_empty());
}

#[test]
fn copying_router_refuses_shards() {
    for (router, refused) in [("static", false), ("epidemic", true)] {
        let mut config = node(plain());
        (config.router, config.shards) = (router.into(), Some(ShardConfig::new(0, 2, vec![0])));
        assert_eq!(refusal(config), refused.then(|| "shards".into()), "{router}");
    }
}

#[test]
fn faulty_link_fails_in_each_shard() {
    let wrong = LinkParams::Tcpcl(tcpcl_v4::LinkParams::default());
    for own in [0, 1] {
        let mut config = node(wrong.clone());
        (config.router, config.shards) = ("static".into(), Some(ShardConfig::new(own, 2, vec![0])));
        assert_eq!(refusal(config), Some("link.far".into()), "shard {own}");
    }
}
