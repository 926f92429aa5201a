//! Tests of the choice of samples, and of the scaling of dictionaries.

use proptest::prelude::*;

use super::reason;
use super::sample::{RUN_ROWS, SampledSegment, places, runs};
use super::{ColumnInTier, Goal};
use crate::schema::ColumnType;

fn segments(samples: &[SampledSegment]) -> Vec<usize> {
    samples.iter().map(|place| place.segment).collect()
}

#[test]
fn few_segments_are_all_sampled_the_spread_ones_first() {
    let samples = places(&[10, 20, 30, 40, 50], 8);
    assert_eq!(segments(&samples), [0, 4, 2, 1, 3]);
    assert!(samples.iter().all(|place| place.weight == [10.0, 20.0, 30.0, 40.0, 50.0][place.segment]));
    assert!(places(&[], 8).is_empty());
    assert_eq!(segments(&places(&[7], 0)), [0]);
}

#[test]
fn of_many_segments_those_of_many_rows_stand_for_the_others() {
    let mut rows = vec![1; 100];
    rows[30] = 1_000_000;
    let samples = places(&rows, 8);
    assert_eq!(samples, [SampledSegment { segment: 30, weight: 1_000_099.0 }]);
    let equal = places(&[100; 64], 4);
    let mut chosen = segments(&equal);
    chosen.sort_unstable();
    assert_eq!(chosen, [8, 24, 40, 56], "the middle of each quarter");
    // Sizes at the limit of numbers.
    let huge = places(&[u64::MAX / 16; 12], 8);
    assert!(huge.iter().map(|place| place.weight).sum::<f64>() > 1e18);
}

#[test]
fn runs_reach_from_the_first_row_to_the_last() {
    assert_eq!(runs(0, 100), []);
    assert_eq!(runs(100, 100), [0..100]);
    assert_eq!(runs(101, 100), [0..100], "one run, from the middle");
    let run = RUN_ROWS as u64;
    assert_eq!(runs(10 * run, RUN_ROWS * 2 + 5), [0..run, 9 * run..10 * run]);
    assert_eq!(runs(u64::MAX, RUN_ROWS * 2).last(), Some(&(u64::MAX - run..u64::MAX)));
}

proptest! {
    #[test]
    fn runs_are_apart_in_order_and_no_more_than_asked_for(rows in 0_u64..1_000_000, most in 1_usize..100_000) {
        let ranges = runs(rows, most);
        let total: u64 = ranges.iter().map(|run| run.end - run.start).sum();
        prop_assert!(total <= most as u64 && (total > 0 || rows == 0));
        prop_assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start));
        prop_assert!(ranges.last().is_none_or(|last| last.end <= rows));
    }

    #[test]
    fn sampled_segments_stand_for_all_rows(rows in proptest::collection::vec(1_u64..1_000, 1..200), most in 1_usize..20) {
        let samples = places(&rows, most);
        let total: f64 = rows.iter().map(|rows| *rows as f64).sum();
        prop_assert!((samples.iter().map(|place| place.weight).sum::<f64>() - total).abs() < 1e-6 * total);
        let mut chosen = segments(&samples);
        chosen.sort_unstable();
        chosen.dedup();
        prop_assert!(chosen.len() == samples.len() && samples.len() <= most.max(1));
    }
}

#[test]
fn goals_have_names() {
    for goal in [Goal::Size, Goal::Speed, Goal::Balanced] {
        assert_eq!(goal.name().to_uppercase().parse(), Ok(goal));
    }
    assert_eq!("fast".parse::<Goal>(), Err("\"fast\" is not a goal; there are size, speed, balanced".to_owned()));
}

#[test]
fn reasons_name_what_the_file_says() {
    let tier = |bytes: f64, encoding: &str, speed: f64| ColumnInTier {
        bytes,
        encoding: encoding.to_owned(),
        gb_per_second: Some(speed),
    };
    let of = |encoding: &str, small: f64, odd| {
        let tiers = [
            tier(8.0, "as in memory", 9.0),
            tier(2.0, encoding, 3.0),
            tier(small, encoding, 1.0),
            tier(small * 0.75, encoding, 2.0),
        ];
        reason::of(&ColumnType::Float64, &tiers, odd)
    };
    assert_eq!(
        of("whole numbers / 10^4, delta binary packed, zstd", 1.0, None),
        "decimals of 4 digits, kept as whole numbers, bit for bit; neighbours differ little, and only the differences are kept; \
         fast takes 25 % of mapped; small saves another 50 %, and is read 3.0 times slower; dense takes 75 % of small"
    );
    assert!(of("whole numbers / 10^0, dictionary", 2.0, None).starts_with("all are whole, "));
    assert!(
        of("values, byte stream split", 2.0, Some(1.0 / 3.0)).contains("0.3333333333333333 has more than 12 decimals")
    );
    assert!(of("values", 2.0, None).contains("no power of ten makes all of them whole"));
    assert!(of("values", 2.0, None).ends_with("; zstd saves little; dense takes 75 % of small"));
    assert!(of("values", 2.0, Some(f64::NEG_INFINITY)).contains("an infinity is no decimal"));
}
