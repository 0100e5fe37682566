//! The copy: preparing both sides, running the road, recording what became of everything.

pub mod job;
pub mod report;
pub mod several;

mod apart;
mod carry_over;
mod check;
mod commit;
mod count;
mod crew;
mod dry;
mod expected;
mod feed;
mod finish;
mod group;
mod hard_link;
mod health;
mod lanes;
mod ledger;
mod links;
mod prepare;
mod proving;
mod rooms;
mod rotate;
mod space;
mod symlink;
