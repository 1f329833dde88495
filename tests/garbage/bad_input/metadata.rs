//! The arrays that describe a batch (prefix sums, page tables, block tables, cascade levels) with one error each. The
//! message names the array, the index and the value, and a plan that was made before still runs.
//!
//! Each test has a good batch, which is accepted, and mutations of it, which are refused with words of their message.

use super::{HEADS, says};
use attn::{
    Error, Out,
    batch::{DeviceBatch, DevicePages, I32Slice, words},
    prelude::*,
};

/// The arrays of a page table or of a block table, owned, so that they can be changed.
#[derive(Clone)]
struct PageArrays {
    /// `page_indptr` of a page table, `kv_lens` of a block table.
    by_request: Vec<i32>,
    pages: Vec<i32>,
    last_page_len: Vec<i32>,
    max_pages: usize,
    page_size: u32,
    num_pages: u32,
}

impl PageArrays {
    fn table(&self) -> PageTable<'_> {
        let &PageArrays { page_size, num_pages, .. } = self;
        let PageArrays { by_request: indptr, pages: indices, last_page_len, .. } = self;
        PageTable { indptr, indices, last_page_len, page_size, num_pages }
    }

    fn block_table(&self) -> BlockTable<'_> {
        let &PageArrays { max_pages, page_size, num_pages, .. } = self;
        BlockTable { pages: &self.pages, max_pages, kv_lens: &self.by_request, page_size, num_pages }
    }
}

/// A mutation that makes input invalid, and words of the message that refuses it.
type Mutation<T> = (fn(&mut T), &'static [&'static str]);

/// Invalid values of an array, and words of the message that refuses them.
type BadArray = (Vec<i32>, Vec<String>);

/// 2^31 + 1 as an array of u32 may hold it: read as i32 it is -2147483647.
fn past_i32() -> i32 {
    words(&[(1 << 31) + 1])[0]
}

/// Invalid prefix sums of three requests, for the array with this name.
fn bad_indptr(array: &'static str) -> Vec<BadArray> {
    // `@` stands for the name of the array
    let said = |words: &[&str]| words.iter().map(|word| word.replace('@', array)).collect();
    vec![
        (vec![], said(&["@ is empty"])),
        (vec![1, 1, 2, 3], said(&["@[0] = 1", "start at 0"])),
        (vec![-1, 1, 2, 3], said(&["@[0] = -1", "start at 0"])),
        (vec![0, 2, 1, 3], said(&["@[2] = 1", "@[1] = 2", "never decrease"])),
        (vec![0, -2, 2, 3], said(&["@[1] = -2", "@[0] = 0"])),
        (vec![0, 1, 2, i32::MIN], said(&["@[3] = -2147483648"])),
        (vec![0, 1, 2, past_i32()], said(&["@[3] = -2147483647", "never decrease"])),
    ]
}

/// Prefix sums of a wrong length, for the array with this name: another array says that there are three requests.
fn bad_lengths(array: &'static str) -> Vec<BadArray> {
    let said = |len: usize| vec![format!("{array} has length {len}"), "asks for 4".to_owned()];
    vec![(vec![0, 1], said(2)), (vec![0, 1, 2], said(3)), (vec![0, 1, 2, 3, 3], said(5))]
}

/// An attention that is given bad batches, and a plan of a good one with a capacity of four requests, which must keep
/// its result after refused updates.
struct PlanUnderTest {
    attention: Attention,
    paged: bool,
    plan: Plan,
    /// What [`run`] gives.
    output: Vec<u32>,
}

impl PlanUnderTest {
    fn new(paged: bool) -> Self {
        let engine = Engine::cpu();
        let attention = engine.attention(&Variant::full(), HEADS, Dtypes::f32()).expect("bound");
        let capacity = BatchCapacity::new(4, 8, 64);
        let capacity = if paged { capacity.in_pages(4, 6) } else { capacity };
        let table = PageTable {
            indptr: &[0, 2, 2, 3],
            indices: &[4, 0, 2],
            last_page_len: &[3, 0, 4],
            page_size: 4,
            num_pages: 6,
        };
        let (qo, kv) = ([0, 1, 3, 4], [0, 5, 5, 9]);
        let batch = if paged { Batch::paged(&qo, &table) } else { Batch::ragged(&qo, &kv) };
        let options = PlanOptions { capacity: Some(capacity), ..Default::default() };
        let plan = attention.plan_with(&batch, &mut engine.workspace(), options).expect("it fits");
        let output = run(&plan, paged);
        assert!(output.iter().any(|&bits| f32::from_bits(bits) != 7.0));
        PlanUnderTest { attention, paged, plan, output }
    }

    /// Checks that every function that takes the batch refuses it with these words, and that the plan still runs.
    fn refuses(&mut self, batch: &Batch<'_>, words: &[&str]) {
        let engine = Engine::cpu();
        let mut workspace = engine.workspace();
        let error = says(self.attention.plan(batch, &mut workspace), words);
        assert!(matches!(error, Error::Batch(_)), "{error:?}");
        for capacity in [None, self.plan.capacity().copied()] {
            let options = PlanOptions { capacity, ..Default::default() };
            says(self.attention.workspace_size(batch, options), words);
            says(self.attention.plan_with(batch, &mut workspace, options), words);
        }
        says(self.plan.update(&engine.stream().expect("a token"), batch), words);
        self.still_runs();
    }

    /// Refuses a batch whose lengths are on the device.
    fn refuses_on_device(&mut self, batch: &DeviceBatch<'_>, words: &[&str]) {
        says(self.plan.update_on_device(&Engine::cpu().stream().expect("a token"), batch), words);
        self.still_runs();
    }

    fn still_runs(&self) {
        assert_eq!(run(&self.plan, self.paged), self.output, "what was planned before still runs");
    }

    fn accepts(&self, batch: &Batch<'_>) {
        self.attention.plan(batch, &mut Engine::cpu().workspace()).expect("nothing is wrong with it");
    }
}

/// The bits of the plan's output over fixed tensors; those of 7 where nothing is written.
fn run(plan: &Plan, paged: bool) -> Vec<u32> {
    let data: Vec<f32> = (0..512).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0).collect();
    let shape: &[usize] = if paged { &[6, 4, 1, 8] } else { &[64, 1, 8] };
    let keys = TensorRef::host(&data, shape).expect("fits");
    let kv = if paged { Kv::paged(keys, keys) } else { Kv::ragged(keys, keys) };
    let q = TensorRef::host(&data[..128], &[8, 2, 8]).expect("fits");
    let mut o = vec![7f32; 128];
    let out = Out::new(TensorMut::host(&mut o, &[8, 2, 8]).expect("fits"));
    plan.run(&Engine::cpu().stream().expect("a token"), q, kv, out).expect("runs");
    o.into_iter().map(f32::to_bits).collect()
}

/// Words of a message as [`PlanUnderTest::refuses`] takes them.
fn borrowed(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[test]
fn ragged_keys() {
    let mut planned = PlanUnderTest::new(false);
    let good = [0, 1, 2, 3];
    planned.accepts(&Batch::ragged(&good, &good));
    for (bad, said) in bad_indptr("qo_indptr") {
        planned.refuses(&Batch::ragged(&bad, &good), &borrowed(&said));
    }
    for (bad, said) in bad_indptr("kv_indptr").into_iter().chain(bad_lengths("kv_indptr")) {
        planned.refuses(&Batch::ragged(&good, &bad), &borrowed(&said));
    }
    let too_many = [0, 1, 2, i32::MAX];
    planned.refuses(&Batch::ragged(&too_many, &good), &["qo_indptr", "2147483647 tokens", "1073741823"]);
    planned.refuses(&Batch::ragged(&good, &too_many), &["kv_indptr", "2147483647 tokens", "1073741823"]);
}

#[test]
fn page_tables() {
    let mut planned = PlanUnderTest::new(true);
    let qo = [0, 1, 3, 4];
    let good = PageArrays {
        by_request: vec![0, 2, 2, 3],
        pages: vec![4, 0, 2],
        last_page_len: vec![3, 0, 4],
        max_pages: 0,
        page_size: 4,
        num_pages: 6,
    };
    planned.accepts(&Batch::paged(&qo, &good.table()));
    for (by_request, said) in bad_indptr("page_indptr").into_iter().chain(bad_lengths("page_indptr")) {
        planned.refuses(&Batch::paged(&qo, &PageArrays { by_request, ..good.clone() }.table()), &borrowed(&said));
    }
    for (bad, said) in bad_indptr("qo_indptr") {
        planned.refuses(&Batch::paged(&bad, &good.table()), &borrowed(&said));
    }
    let wrong: [Mutation<PageArrays>; 19] = [
        (|p| p.pages[1] = 6, &["page indices[1] = 6", "pool of 6 pages"]),
        (|p| p.pages[2] = -1, &["page indices[2] = -1", "pool of 6"]),
        (|p| p.pages[0] = i32::MIN, &["page indices[0] = -2147483648"]),
        (|p| p.pages[0] = i32::MAX, &["page indices[0] = 2147483647"]),
        (|p| p.pages[0] = past_i32(), &["page indices[0] = -2147483647"]),
        (|p| p.num_pages = 4, &["page indices[0] = 4", "pool of 4"]),
        (|p| p.num_pages = 0, &["page indices[0] = 4", "pool of 0"]),
        (|p| _ = p.pages.pop(), &["page indices has length 2", "page_indptr ends at 3"]),
        (|p| p.pages.clear(), &["page indices has length 0", "page_indptr ends at 3"]),
        (|p| p.last_page_len[0] = 0, &["last_page_len[0] = 0", "1 to 4"]),
        (|p| p.last_page_len[2] = 5, &["last_page_len[2] = 5", "1 to 4"]),
        (|p| p.last_page_len[2] = -3, &["last_page_len[2] = -3"]),
        (|p| p.last_page_len[2] = past_i32(), &["last_page_len[2] = -2147483647"]),
        (|p| _ = p.last_page_len.pop(), &["last_page_len has length 2", "asks for 3"]),
        (|p| p.last_page_len.push(1), &["last_page_len has length 4", "asks for 3"]),
        (|p| p.last_page_len.clear(), &["last_page_len has length 0", "asks for 3"]),
        (|p| p.page_size = 0, &["page_size = 0", "1 to"]),
        (|p| p.page_size = 1 << 31, &["page_size = 2147483648"]),
        (|p| p.page_size = 1 << 30, &["the keys up to request 0 are 1073741827", "1073741823"]),
    ];
    for (mutate, said) in wrong {
        let mut bad = good.clone();
        mutate(&mut bad);
        planned.refuses(&Batch::paged(&qo, &bad.table()), said);
    }
    // entries behind the table are not read, nor is the last page of a request without pages
    let slack = PageArrays { pages: vec![4, 0, 2, -9, 99], last_page_len: vec![3, -7, 4], ..good };
    planned.accepts(&Batch::paged(&qo, &slack.table()));
}

#[test]
fn block_tables() {
    let mut planned = PlanUnderTest::new(true);
    let qo = [0, 1, 3, 4];
    let good = PageArrays {
        by_request: vec![7, 0, 4],
        pages: vec![4, 0, -1, -1, -1, -1, 2, -1, 77],
        last_page_len: vec![],
        max_pages: 3,
        page_size: 4,
        num_pages: 6,
    };
    planned.accepts(&Batch::block_table(&qo, &good.block_table()));
    for (bad, said) in bad_indptr("qo_indptr") {
        planned.refuses(&Batch::block_table(&bad, &good.block_table()), &borrowed(&said));
    }
    let wrong: [Mutation<PageArrays>; 16] = [
        (|p| p.pages[1] = 6, &["block_table[0][1] = 6", "pool of 6"]),
        (|p| p.pages[6] = -1, &["block_table[2][0] = -1", "pool of 6"]),
        (|p| p.pages[0] = past_i32(), &["block_table[0][0] = -2147483647"]),
        (|p| p.num_pages = 4, &["block_table[0][0] = 4", "pool of 4"]),
        (|p| p.num_pages = 0, &["block_table[0][0] = 4", "pool of 0"]),
        (|p| _ = p.pages.pop(), &["block_table has length 8", "asks for 9"]),
        (|p| p.pages.clear(), &["block_table has length 0", "asks for 9"]),
        (|p| p.max_pages = 4, &["block_table has length 9", "asks for 12"]),
        (|p| p.max_pages = usize::MAX, &["block_table has length 9"]),
        (|p| p.by_request[0] = 13, &["request 0 has 13 keys", "3 pages of 4"]),
        (|p| p.by_request[2] = -1, &["kv_lens[2] = -1"]),
        (|p| p.by_request[2] = past_i32(), &["kv_lens[2] = -2147483647"]),
        (|p| _ = p.by_request.pop(), &["kv_lens has length 2", "asks for 3"]),
        (|p| p.by_request.push(1), &["kv_lens has length 4", "asks for 3"]),
        (|p| p.page_size = 0, &["page_size = 0"]),
        (
            |p| (p.page_size, p.by_request[0], p.by_request[2]) = (i32::MAX as u32, 1 << 29, 1 << 29),
            &["the keys up to request 2 are 1073741824"],
        ),
    ];
    for (mutate, said) in wrong {
        let mut bad = good.clone();
        mutate(&mut bad);
        planned.refuses(&Batch::block_table(&qo, &bad.block_table()), said);
    }
}

/// The arrays of a ragged level.
#[derive(Clone)]
struct LevelArrays {
    qo_indptr: Vec<i32>,
    kv_indptr: Vec<i32>,
}

impl LevelArrays {
    fn level(&self) -> CascadeLevel<'_> {
        CascadeLevel { qo_indptr: &self.qo_indptr, kv: CascadeLevelKv::Ragged(&self.kv_indptr) }
    }
}

/// Three ragged levels over four requests of one query each.
fn cascade() -> Vec<LevelArrays> {
    let level = |qo: &[i32], kv: &[i32]| LevelArrays { qo_indptr: qo.to_vec(), kv_indptr: kv.to_vec() };
    vec![level(&[0, 4], &[2, 10]), level(&[0, 2, 4], &[10, 12, 12]), level(&[0, 1, 2, 3, 4], &[12, 13, 15, 15, 20])]
}

#[test]
fn levels() {
    let mut planned = PlanUnderTest::new(false);
    let qo = [0, 1, 2, 3, 4];
    let ragged = |levels: &[LevelArrays], check: &mut dyn FnMut(&Batch<'_>)| {
        let levels: Vec<CascadeLevel<'_>> = levels.iter().map(LevelArrays::level).collect();
        check(&Batch::cascade(&qo, &levels));
    };
    ragged(&cascade(), &mut |batch| _ = batch.validate().expect("nothing is wrong with it"));
    let wrong: [Mutation<Vec<LevelArrays>>; 16] = [
        (|l| l.clear(), &["no levels"]),
        (|l| l[0].qo_indptr.clear(), &["level 0", "qo_indptr is empty"]),
        (|l| l[1].qo_indptr[0] = 1, &["level 1", "qo_indptr[0] = 1", "start at 0"]),
        (|l| l[1].qo_indptr[1] = 5, &["level 1", "qo_indptr[2] = 4", "qo_indptr[1] = 5"]),
        (|l| l[1].qo_indptr[1] = -1, &["level 1", "qo_indptr[1] = -1"]),
        (|l| l[0].qo_indptr[1] = 3, &["level 0", "ends at 3", "4 queries"]),
        (|l| l[2].qo_indptr[4] = 9, &["level 2", "ends at 9", "4 queries"]),
        (|l| l[2].qo_indptr[4] = past_i32(), &["level 2", "qo_indptr[4] = -2147483647"]),
        (|l| l[1].kv_indptr.clear(), &["level 1", "kv_indptr has length 0", "asks for 3"]),
        (|l| l[1].kv_indptr.push(12), &["level 1", "kv_indptr has length 4", "asks for 3"]),
        (|l| l[0].kv_indptr[0] = -2, &["level 0", "kv_indptr[0] = -2"]),
        (|l| l[1].kv_indptr[1] = 9, &["level 1", "kv_indptr[1] = 9", "kv_indptr[0] = 10"]),
        (|l| l[2].kv_indptr[4] = past_i32(), &["level 2", "kv_indptr[4] = -2147483647"]),
        (|l| l[0].kv_indptr[1] = i32::MAX, &["level 0", "kv_indptr", "2147483647 tokens"]),
        (|l| l.swap(0, 1), &["level 1", "several groups of the level before", "request 2"]),
        (
            |l| (l[0].kv_indptr, l[1].kv_indptr) = (vec![0, 1 << 29], vec![0, 1 << 29, 1 << 29]),
            &["request 0 are 1073741824"],
        ),
    ];
    for (mutate, said) in wrong {
        let mut bad = cascade();
        mutate(&mut bad);
        ragged(&bad, &mut |batch| planned.refuses(batch, said));
    }
    // a group that ends within a request of two queries
    let two = [0, 1, 3, 4];
    let cut = [CascadeLevel { qo_indptr: &[0, 2, 4], kv: CascadeLevelKv::Ragged(&[0, 1, 2]) }];
    planned.refuses(&Batch::cascade(&two, &cut), &["level 0", "qo_indptr[1] = 2", "within request 1"]);
}

#[test]
fn levels_of_pages() {
    let mut planned = PlanUnderTest::new(true);
    let qo = [0, 1, 2];
    let shared = PageArrays {
        by_request: vec![0, 1],
        pages: vec![2],
        last_page_len: vec![8],
        max_pages: 0,
        page_size: 8,
        num_pages: 3,
    };
    let own = PageArrays {
        by_request: vec![0, 1, 2],
        pages: vec![0, 1],
        last_page_len: vec![1, 4],
        max_pages: 0,
        page_size: 4,
        num_pages: 6,
    };
    let wrong: [Mutation<[PageArrays; 2]>; 8] = [
        (|p| p[0].pages[0] = 3, &["level 0", "page indices[0] = 3", "pool of 3"]),
        (|p| p[1].pages[1] = -1, &["level 1", "page indices[1] = -1"]),
        (|p| p[0].last_page_len[0] = 9, &["level 0", "last_page_len[0] = 9", "1 to 8"]),
        (|p| p[1].last_page_len[0] = 0, &["level 1", "last_page_len[0] = 0", "1 to 4"]),
        (|p| _ = p[1].last_page_len.pop(), &["level 1", "last_page_len has length 1"]),
        (|p| p[1].by_request[1] = 3, &["level 1", "page_indptr[2] = 2", "page_indptr[1] = 3"]),
        (|p| _ = p[1].by_request.pop(), &["level 1", "page_indptr has length 2"]),
        (|p| p[0].by_request[1] = 2, &["level 0", "page indices has length 1"]),
    ];
    for (mutate, said) in wrong {
        let mut bad = [shared.clone(), own.clone()];
        mutate(&mut bad);
        let levels = [
            CascadeLevel { qo_indptr: &[0, 2], kv: CascadeLevelKv::Paged(bad[0].table()) },
            CascadeLevel { qo_indptr: &qo, kv: CascadeLevelKv::Paged(bad[1].table()) },
        ];
        planned.refuses(&Batch::cascade(&qo, &levels), said);
    }
    let mixed = [
        CascadeLevel { qo_indptr: &[0, 2], kv: CascadeLevelKv::Paged(shared.table()) },
        CascadeLevel { qo_indptr: &qo, kv: CascadeLevelKv::Ragged(&[0, 1, 2]) },
    ];
    planned.refuses(&Batch::cascade(&qo, &mixed), &["level 1", "all ragged, or all paged"]);
}

#[test]
fn batches_of_a_device() {
    let qo = [0, 1, 3, 4];
    let mut ragged = PlanUnderTest::new(false);
    let mut refuses = |qo: &[i32], lens: &[i32], words: &[&str]| {
        ragged.refuses_on_device(&DeviceBatch::ragged(I32Slice::host(qo), I32Slice::host(lens)), words);
    };
    for (bad, said) in bad_indptr("qo_indptr") {
        let lens = vec![1; bad.len().saturating_sub(1)];
        refuses(&bad, &lens, &borrowed(&said));
    }
    refuses(&qo, &[1, -1, 1], &["kv_lens[1] = -1"]);
    refuses(&qo, &[1, 1, past_i32()], &["kv_lens[2] = -2147483647"]);
    refuses(&qo, &[1, 1], &["kv_lens has length 2", "asks for 3"]);
    refuses(&qo, &[40, 40, 1], &["81 keys", "capacity is 64"]);
    let mut paged = PlanUnderTest::new(true);
    let wrong: [(&[i32], &[i32], &[&str]); 6] = [
        (&[0, 2, 2], &[4, 0, 2], &["page_indptr has length 3", "asks for 4"]),
        (&[0, 2, 1, 3], &[4, 0, 2], &["page_indptr[2] = 1", "page_indptr[1] = 2"]),
        (&[0, 2, 2, 3], &[4, 0], &["page indices has length 2", "ends at 3"]),
        (&[0, 2, 2, 3], &[4, 6, 2], &["page indices[1] = 6", "pool of 6"]),
        (&[0, 2, 2, 3], &[4, 0, -1], &["page indices[2] = -1"]),
        (&[0, 1, 1, 2], &[4, 0], &["request 0 has 7 keys", "1 pages of 4"]),
    ];
    for (indptr, indices, said) in wrong {
        let pages = DevicePages::Compressed { indptr: I32Slice::host(indptr), indices: I32Slice::host(indices) };
        paged.refuses_on_device(&DeviceBatch::paged(I32Slice::host(&qo), I32Slice::host(&[7, 0, 4]), pages), said);
    }
}
