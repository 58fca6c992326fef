"""The services of a chain as programs stored them that knew one pace for all classes of devices."""

from gpu_tasks.market.inference.migrations.from_any_class import AnyClassService, AnyClassServiceTerms
from gpu_tasks.market.inference.services import Service
from runtime.frame.storage import storage_prefix
from runtime.frame.storage_version import kept, rewritten
from runtime.state.overlay import Overlay

NEW = ("consumer_pace", "datacenter_pace")


def store_services_of_before(overlay: Overlay) -> None:
    """Store each as the program before did."""

    def before(service: Service) -> AnyClassService:
        terms = {name: value for name, value in kept(service.terms).items() if name not in NEW}
        return AnyClassService(**kept(service) | {"terms": AnyClassServiceTerms(**terms)})

    rewritten(
        overlay, storage_prefix("InferenceMarket", "Services"), Service, AnyClassService, lambda _, it: before(it)
    )
