//! A list that readers take a look at without a lock, while others change it.
//!
//! Each change makes a new list and swaps it in; who has taken a look keeps the list that he saw. The
//! swapping is arc-swap's; in a model a lock stands for it, which orders no more than arc-swap promises:
//! who sees a list sees everything that was written before it was swapped in.

#[cfg(not(loom))]
use arc_swap::ArcSwap;
use std::sync::Arc;

/// The list.
#[derive(Debug)]
pub(crate) struct List<T>(Swap<Vec<T>>);

impl<T: Clone> List<T> {
    pub(crate) fn new(items: Vec<T>) -> List<T> {
        List(Swap::from_pointee(items))
    }

    /// The list as it is now.
    pub(crate) fn now(&self) -> Arc<Vec<T>> {
        self.0.load_full()
    }

    /// Adds an item at the end.
    pub(crate) fn push(&self, item: &T) {
        self.0.rcu(|items| {
            let mut items = Vec::clone(items);
            items.push(item.clone());
            items
        });
    }

    /// Takes out all but some items.
    pub(crate) fn retain(&self, keep: impl Fn(&T) -> bool) {
        self.0.rcu(|items| {
            items
                .iter()
                .filter(|item| keep(item))
                .cloned()
                .collect::<Vec<T>>()
        });
    }
}

#[cfg(not(loom))]
type Swap<T> = ArcSwap<T>;

/// What stands for [`ArcSwap`] in a model.
#[cfg(loom)]
#[derive(Debug)]
struct Swap<T>(super::Mutex<Arc<T>>);

#[cfg(loom)]
impl<T> Swap<T> {
    fn from_pointee(value: T) -> Swap<T> {
        Swap(super::Mutex::new(Arc::new(value)))
    }

    fn load_full(&self) -> Arc<T> {
        Arc::clone(&self.0.lock().unwrap())
    }

    fn rcu(&self, change: impl Fn(&Arc<T>) -> T) {
        let mut value = self.0.lock().unwrap();
        *value = Arc::new(change(&value));
    }
}
