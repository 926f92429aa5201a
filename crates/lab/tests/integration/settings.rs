//! Settings outside their range are refused with the name of the setting, before anything is written.

use splay_lab::{CryptoSettings, Error, TaqSettings, generate_crypto, generate_taq};
use tempfile::tempdir;

fn refused_taq(change: impl FnOnce(&mut TaqSettings)) -> String {
    let folder = tempdir().unwrap();
    let mut settings = TaqSettings { out: folder.path().join("new"), ..TaqSettings::default() };
    change(&mut settings);
    let error = generate_taq(&settings, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Setting { .. }));
    assert!(!folder.path().join("new").exists());
    error.to_string()
}

fn refused_crypto(change: impl FnOnce(&mut CryptoSettings)) -> String {
    let folder = tempdir().unwrap();
    let mut settings = CryptoSettings { out: folder.path().join("new"), ..CryptoSettings::default() };
    change(&mut settings);
    let error = generate_crypto(&settings, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Setting { .. }));
    assert!(!folder.path().join("new").exists());
    error.to_string()
}

#[test]
fn defaults_are_valid() {
    TaqSettings::default().validate().unwrap();
    CryptoSettings::default().validate().unwrap();
}

#[test]
fn numbers_out_of_range_are_refused() {
    assert_eq!(refused_taq(|settings| settings.symbols = 0), "setting symbols is 0, expected 1 to 20,000");
    assert!(refused_taq(|settings| settings.symbols = 20_001).contains("symbols"));
    assert!(refused_taq(|settings| settings.quotes = u64::MAX).contains("quotes"));
    assert!(refused_taq(|settings| settings.trades = u64::MAX).contains("trades"));
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
        assert!(refused_crypto(|settings| settings.scale = scale).contains("scale"), "{scale}");
    }
    for days in [0, 31] {
        assert!(refused_crypto(|settings| settings.days = Some(days)).contains("days"), "{days}");
    }
}

#[test]
fn a_file_is_not_an_output_folder() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "kept").unwrap();
    assert!(refused_taq(|settings| settings.out.clone_from(&file)).contains("setting out"));
    assert!(refused_crypto(|settings| settings.out.clone_from(&file)).contains("setting out"));

    let settings = TaqSettings { out: file.join("below"), ..TaqSettings::default() };
    let error = generate_taq(&settings, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Io { .. }));
    assert!(error.to_string().starts_with("cannot create the folder "), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
}
