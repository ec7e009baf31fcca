//! Faults that other durable logs have had, each staged against ours. `docs/testing.md` lists the
//! rows; every test says which one it stages and what went wrong elsewhere.

#[path = "../child/alone.rs"]
mod alone;
#[path = "../child/mod.rs"]
mod child;
#[path = "../common/mod.rs"]
mod common;
mod faulty;
mod kit;
mod life;
#[path = "../machine/mod.rs"]
mod machine;
mod segment;

mod backup;
mod beside;
mod boundary;
mod bounds;
mod closing;
mod cuts;
mod cutting;
mod damage;
mod ends;
mod expiring;
mod foreign;
mod forked;
mod full;
mod futures;
mod groups;
mod health;
mod holes;
mod limits;
mod locks;
mod many;
mod mended;
mod mending;
mod names;
mod nowait;
mod opening;
mod parking;
mod redo_files;
mod refused;
mod removal;
mod restored;
mod reuse;
mod rot;
mod salvaged;
mod stale;
mod streams;
mod syncs;
mod tail;
mod versions;
mod writes;
