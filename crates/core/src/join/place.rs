//! Where the parts of a join are while it runs: kubeadm's unit, the file it reads, the kubelet's drop-in. All of it is gone
//! with the next boot, and with the end of the join.

/// kubeadm runs in this unit of systemd, which outlives our process and the SSH link.
pub const UNIT: &str = "carrick-kubeadm.service";
/// Below /run, so that it outlives no boot.
pub const CONFIG_DIR: &str = "/run/carrick";
/// The JoinConfiguration that kubeadm reads: the token is in it.
pub const CONFIG: &str = "/run/carrick/join.yaml";
/// Where [`DROP_IN`] is.
pub const DROP_IN_DIR: &str = "/run/systemd/system/kubelet.service.d";
/// Keeps the kubelet from starting before kubeadm has written its configuration; below /run, so that no boot finds it. A
/// mask would make kubeadm wait for four minutes; with this its `systemctl start` returns at once.
pub const DROP_IN: &str = "/run/systemd/system/kubelet.service.d/90-carrick-join.conf";

/// What is there while a join is at work, and where one was cut off.
pub const OF_A_JOIN: [&str; 3] = [UNIT, CONFIG, DROP_IN];
