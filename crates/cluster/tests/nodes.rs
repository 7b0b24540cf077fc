//! A Node whose machine leaves, on a server in memory that notes what it is asked and answers as an API server does.
#![allow(clippy::unwrap_used)] // What cannot be set up fails the test.

use std::time::Duration;

use carrick_cluster::nodes::{self, KubeletAnswer, MarkedNode, UnmarkedNode};
use carrick_cluster::pods::{self, Evicted};
use carrick_cluster::{ApiError, ApiProblem, ServerMessage, bootstrap_tokens, leases};
use carrick_core::fact::identity::MachineIdentity;
use carrick_core::reset::CORDONED;
use carrick_core::reset::pods::Pod;
use serde_json::{Value, json};

mod support;

use support::{Asked, Authority, Reply, Server};

type Answers = fn(&Asked) -> Reply;

/// A server, and a client of it.
fn that(answers: Answers) -> (Server, carrick_cluster::ClusterClient) {
    let ca = Authority::new();
    let server = Server::new(&ca, answers);
    let client = server.client(&ca);
    (server, client)
}

fn ok(object: &Value) -> Reply {
    Reply::json("200 OK", object)
}

const ID: &str = "0123456789abcdef0123456789abcdef";
const NODE: &str = "GET /api/v1/nodes/w1";

fn own() -> MachineIdentity {
    MachineIdentity { uuid: None, machine_id: Some(ID.to_owned()) }
}

fn object(machine_id: &str, spec: &Value, annotations: &Value) -> Value {
    let info = json!({ "nodeInfo": { "machineID": machine_id, "systemUUID": "" } });
    json!({ "metadata": { "name": "w1", "annotations": annotations }, "spec": spec, "status": info })
}

#[tokio::test]
async fn a_node_is_marked_and_cordoned_with_a_note() {
    let (server, client) = that(|_| ok(&object(ID, &json!({}), &json!({}))));
    assert_eq!(nodes::mark_not_ready_and_cordon(&client, "w1", &own()).await, Ok(MarkedNode::Cordoned));
    let asked = server.lines();
    assert_eq!((asked.len(), asked[0].as_str()), (3, NODE));
    assert!(asked[1].starts_with("PATCH /api/v1/nodes/w1/status {\"status\":{\"conditions\":[{"), "{}", asked[1]);
    assert!(asked[1].contains(r#""status":"False""#) && asked[1].contains(r#""type":"Ready""#), "{}", asked[1]);
    let kinds =
        server.asked().iter().map(|asked| asked.head.contains("strategic-merge-patch+json")).collect::<Vec<_>>();
    assert_eq!(kinds, [false, true, false], "conditions are merged by their type");
    let cordoned: Value = serde_json::from_str(asked[2].strip_prefix("PATCH /api/v1/nodes/w1 ").unwrap()).unwrap();
    let note = json!({ "annotations": { CORDONED: "2026-11-15T12:00:00Z" } });
    assert_eq!(cordoned, json!({ "metadata": note, "spec": { "unschedulable": true } }));
}

#[tokio::test]
async fn what_is_not_this_machines_to_say_is_not_said() {
    let another: Answers = |_| ok(&object(&ID.replace('0', "f"), &json!({}), &json!({})));
    let plane: Answers = |_| {
        let mut node = object(ID, &json!({}), &json!({}));
        node["metadata"]["labels"] = json!({ "node-role.kubernetes.io/control-plane": "" });
        ok(&node)
    };
    let denied: Answers = |_| Reply::text("403 Forbidden", "{}");
    let error = ApiError {
        server: "10.0.0.11:6443".parse().unwrap(),
        problem: ApiProblem::Forbidden(ServerMessage::default()),
    };
    let rows = [
        (another, UnmarkedNode::AnotherMachine("w1".into())),
        (plane, UnmarkedNode::ControlPlane("w1".into())),
        (denied, UnmarkedNode::Api(error)),
    ];
    for (answers, expected) in rows {
        let (server, client) = that(answers);
        assert_eq!(nodes::mark_not_ready_and_cordon(&client, "w1", &own()).await, Err(expected));
        assert_eq!(server.lines(), [NODE], "nothing was changed");
    }
    let (_, client) = that(|_| Reply::text("404 Not Found", "{}"));
    assert_eq!(nodes::mark_not_ready_and_cordon(&client, "w1", &own()).await, Ok(MarkedNode::Absent));
}

#[tokio::test]
async fn only_what_a_reset_cordoned_is_uncordoned() {
    let (theirs, client) = that(|_| ok(&object(ID, &json!({ "unschedulable": true }), &json!({}))));
    assert_eq!(nodes::mark_not_ready_and_cordon(&client, "w1", &own()).await, Ok(MarkedNode::CordonedBefore));
    assert_eq!(theirs.lines().len(), 2, "marked, and no note left");
    nodes::cordon(&client, "w1").await.unwrap();
    assert_eq!(nodes::uncordon(&client, "w1").await, Ok(false));
    assert!(theirs.lines().iter().skip(2).all(|asked| asked == NODE));

    let (ours, client) = that(|_| ok(&object(ID, &json!({ "unschedulable": true }), &json!({ CORDONED: "x" }))));
    assert_eq!(nodes::uncordon(&client, "w1").await, Ok(true));
    let asked = &ours.asked()[1];
    assert_eq!(asked.line, "PATCH /api/v1/nodes/w1");
    let mark = json!({ "annotations": { CORDONED: null } });
    assert_eq!(asked.json(), json!({ "metadata": mark, "spec": { "unschedulable": null } }));
}

#[tokio::test]
async fn a_node_is_deleted_as_it_was_seen_or_not_at_all() {
    let seen = |uid: Value| json!({ "metadata": { "uid": uid, "resourceVersion": "7" } });
    let (server, client) = that(|_| ok(&json!({})));
    nodes::delete_as_seen(&client, "w1", &seen(json!("u"))).await.unwrap();
    assert_eq!(server.asked()[0].line, "DELETE /api/v1/nodes/w1");
    assert_eq!(server.asked()[0].json(), json!({ "preconditions": { "uid": "u", "resourceVersion": "7" } }));
    assert!(nodes::delete_as_seen(&client, "w1", &seen(Value::Null)).await.is_err());
    assert_eq!(server.asked().len(), 1);
    let (_, client) = that(|_| Reply::text("404 Not Found", "{}"));
    assert_eq!(nodes::delete_as_seen(&client, "w1", &seen(json!("u"))).await, Ok(()), "gone is as good as deleted");
    let (_, client) = that(|_| Reply::text("409 Conflict", "{}"));
    let error = nodes::delete_as_seen(&client, "w1", &seen(json!("u"))).await.unwrap_err();
    assert_eq!(error.problem, ApiProblem::Conflict(ServerMessage::default()));
}

#[tokio::test(start_paused = true)]
async fn pods_go_as_their_budget_lets_them() {
    let pod = |name: &str| Pod { namespace: "default".into(), name: name.into(), uid: "u".into(), ..Pod::default() };
    let (server, client) = that(|asked| match asked.line.as_str() {
        "POST /api/v1/namespaces/default/pods/web/eviction" => Reply::json("201 Created", &json!({})),
        "POST /api/v1/namespaces/default/pods/db/eviction" => {
            let said = json!({ "message": "would violate the pod's disruption budget" });
            Reply::json("429 Too Many Requests", &said).with("Retry-After: 4")
        }
        "POST /api/v1/namespaces/default/pods/busy/eviction" => Reply::text("503 Service Unavailable", ""),
        "POST /api/v1/namespaces/default/pods/anew/eviction" => Reply::Silence,
        _ => Reply::text("404 Not Found", "{}"),
    });
    let budget = "would violate the pod's disruption budget".to_owned();
    let busy = "API server 10.0.0.11:6443 answered 503 Service Unavailable".to_owned();
    let slow = "API server 10.0.0.11:6443 did not answer within 3 s".to_owned();
    for (name, expected) in [
        ("web", Evicted::Going),
        ("db", Evicted::NotNow { why: budget, retry_after: Some(Duration::from_secs(4)) }),
        ("old", Evicted::Gone),
        ("anew", Evicted::NotNow { why: slow, retry_after: None }),
        ("busy", Evicted::NotNow { why: busy, retry_after: None }),
    ] {
        assert_eq!(pods::evict(&client, &pod(name)).await, Ok(expected));
    }
    let preconditions = json!({ "preconditions": { "uid": "u" } });
    assert!(server.asked().iter().all(|asked| asked.json()["deleteOptions"] == preconditions));
}

#[tokio::test]
async fn a_token_is_made_looked_for_and_revoked() {
    let (server, client) = that(|asked| match asked.line.as_str() {
        "POST /api/v1/namespaces/kube-system/secrets" => Reply::json("201 Created", &json!({})),
        "GET /api/v1/namespaces/kube-public/configmaps/cluster-info" => {
            ok(&json!({ "data": { "jws-kubeconfig-abcdef": "a..b" } }))
        }
        "DELETE /api/v1/namespaces/kube-system/secrets/bootstrap-token-abcdef" => ok(&json!({})),
        _ => Reply::text("501 Not Implemented", "{}"),
    });
    let token = "abcdef.0123456789abcdef".parse().unwrap();
    bootstrap_tokens::create(&client, &token, "2026-11-15T12:30:00Z".parse().unwrap()).await.unwrap();
    let secret = server.asked()[0].json();
    assert_eq!(secret["stringData"]["expiration"], "2026-11-15T12:30:00Z");
    assert_eq!(secret["type"], "bootstrap.kubernetes.io/token");
    assert_eq!(bootstrap_tokens::is_signed(&client, &token).await, Ok(true));
    assert_eq!(bootstrap_tokens::is_signed(&client, &"zzzzzz.0123456789abcdef".parse().unwrap()).await, Ok(false));
    bootstrap_tokens::revoke(&client, &token.id).await.unwrap();
}

/// There is none yet; to make one is answered so.
fn new_lease(asked: &Asked, made: Reply) -> Reply {
    if asked.line.starts_with("GET ") { Reply::text("404 Not Found", "{}") } else { made }
}

#[tokio::test]
async fn a_lease_is_refused_by_what_admission_says_alone() {
    const DENIED: &str = "leases.coordination.k8s.io \"w1\" is forbidden: policy denied request";
    const CALLED: &str = "Internal error occurred: failed calling webhook \"x\": connection refused";
    let rows: [(Answers, Option<&str>); 6] = [
        (|asked| new_lease(asked, Reply::json("201 Created", &json!({}))), None),
        (|asked| new_lease(asked, Reply::json("403 Forbidden", &json!({ "message": DENIED }))), Some(DENIED)),
        (
            |asked| new_lease(asked, Reply::json("500 Internal Server Error", &json!({ "message": CALLED }))),
            Some(CALLED),
        ),
        (
            |asked| {
                new_lease(
                    asked,
                    Reply::json("400 Bad Request", &json!({ "message": "webhook x does not support dry run" })),
                )
            },
            None,
        ),
        (|asked| new_lease(asked, Reply::text("503 Service Unavailable", "no backend")), None),
        (|asked| new_lease(asked, Reply::text("504 Gateway Timeout", "too late")), None),
    ];
    for (answers, expected) in rows {
        let (server, client) = that(answers);
        assert_eq!(leases::refusal(&client, "w1").await.as_deref(), expected);
        let asked = server.lines();
        let asked = asked.get(1..).unwrap();
        assert!(
            asked[0].starts_with("POST /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases?"),
            "{asked:?}"
        );
        assert!(asked[0].contains("dryRun=All"), "{asked:?}");
    }
}

/// Behind nodes/proxy there may be the kubelet, the API server that does not reach it, or whoever stands before both.
#[tokio::test]
async fn only_the_kubelets_own_words_are_the_kubelets() {
    use KubeletAnswer::{Kubelet, KubeletAskedWho, KubeletRefused, NotReached, SomebodyElse};
    let rows: [(Answers, &str); 11] = [
        (|_| Reply::text("200 OK", "ok"), "kubelet"),
        (|_| Reply::text("500 Internal Server Error", "[-]syncloop failed\nhealthz check failed"), "kubelet"),
        (|_| Reply::text("401 Unauthorized", "Unauthorized"), "asked who"),
        (|_| Reply::text("403 Forbidden", "Forbidden (user=system:anonymous, verb=get, resource=nodes)"), "asked who"),
        (|_| Reply::text("403 Forbidden", "Forbidden (user=kube-apiserver, verb=get, resource=nodes)"), "refused"),
        (
            |_| {
                let says = "error trying to reach service: dial tcp 10.0.0.21:10250: i/o timeout";
                Reply::json("503 Service Unavailable", &json!({ "kind": "Status", "message": says }))
            },
            "not reached",
        ),
        (|_| Reply::text("503 Service Unavailable", "<html>no server is available</html>"), "somebody"),
        (|_| Reply::text("504 Gateway Timeout", ""), "somebody"),
        (|_| Reply::text("401 Unauthorized", "<html>log in</html>"), "somebody"),
        (|_| Reply::text("403 Forbidden", "<html>blocked</html>"), "somebody"),
        (|_| Reply::text("200 OK", "<html>welcome</html>"), "somebody"),
    ];
    for (at, (answers, expected)) in rows.into_iter().enumerate() {
        let (_server, client) = that(answers);
        let said = match nodes::ask_kubelet(&client, "w1").await.unwrap() {
            Kubelet => "kubelet",
            KubeletRefused(_) => "refused",
            KubeletAskedWho(_) => "asked who",
            NotReached(_) => "not reached",
            SomebodyElse(_) => "somebody",
        };
        assert_eq!(said, expected, "row {at}");
    }
}

/// A policy may let a kubelet make its lease, and not renew it.
#[tokio::test]
async fn whether_a_lease_is_taken_is_asked_of_what_comes_next() {
    const REFUSED: &str = "ValidatingAdmissionPolicy 'x' denied request";
    fn refuses(asked: &Asked, verb: &str, there: bool) -> Reply {
        let lease = json!({ "metadata": { "name": "w1", "resourceVersion": "7" }, "spec": { "holderIdentity": "w1" } });
        let is = |of: &str| asked.line.starts_with(of);
        if is("GET ") && there {
            return ok(&lease);
        }
        if is("GET ") {
            return Reply::text("404 Not Found", "{}");
        }
        if is(verb) {
            Reply::json("403 Forbidden", &json!({ "kind": "Status", "message": REFUSED }))
        } else {
            ok(&lease)
        }
    }
    let rows: [(Answers, Option<&str>); 4] = [
        (|asked| refuses(asked, "POST ", false), Some(REFUSED)),
        (|asked| refuses(asked, "PUT ", false), None),
        (|asked| refuses(asked, "PUT ", true), Some(REFUSED)),
        (|asked| refuses(asked, "POST ", true), None),
    ];
    for (at, (answers, expected)) in rows.into_iter().enumerate() {
        let (server, client) = that(answers);
        assert_eq!(leases::refusal(&client, "w1").await.as_deref(), expected, "row {at}");
        let asked = server.asked();
        assert!(asked[1].head.contains("dryRun=All") || asked[1].line.contains("dryRun=All"), "{:?}", asked[1].line);
    }
    let (server, client) = that(|asked| refuses(asked, "PUT ", true));
    leases::refusal(&client, "w1").await;
    assert_eq!(server.asked()[1].json()["spec"]["renewTime"], "2026-11-15T12:00:00.000000Z", "as a kubelet renews it");
}
